/** Runs of one size that are remembered. */
const window = 100
/** Shapes whose runs are remembered; those longest without a run go first. */
const maxBuckets = 128

/** What the last runs of one size took. */
class RecentRuns {
  readonly #ring = new Float64Array(window)
  readonly #sorted = new Float64Array(window)
  #count = 0
  #next = 0

  add(ms: number): void {
    const sorted = this.#sorted
    if (this.#count === window) {
      const gone = this.#find(this.#ring[this.#next]!)
      sorted.copyWithin(gone, gone + 1, window)
      this.#count--
    }
    const at = this.#find(ms)
    sorted.copyWithin(at + 1, at, this.#count)
    sorted[at] = ms
    this.#count++
    this.#ring[this.#next] = ms
    this.#next = (this.#next + 1) % window
  }

  /** Nearest-rank quantile. */
  quantile(q: number): number {
    return this.#sorted[Math.max(0, Math.ceil(q * this.#count) - 1)]!
  }

  #find(ms: number): number {
    let low = 0
    let high = this.#count
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#sorted[middle]! < ms) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Runs of one bucket, by size. */
class BucketRuns {
  readonly bySize = new Map<number, RecentRuns>()
  /** Sizes that have been run, ascending. */
  sizes: number[] = []

  of(rows: number): RecentRuns {
    let runs = this.bySize.get(rows)
    if (runs === undefined) {
      this.bySize.set(rows, (runs = new RecentRuns()))
      this.sizes = [...this.sizes, rows].sort((a, b) => a - b)
    }
    return runs
  }
}

/**
 * How long a model's runs take, per bucket and batch size: quantiles of the last runs, as in Clockwork (OSDI '20). A
 * size that has not been run lies between its measured neighbours; above the largest, more rows are reckoned to take
 * proportionally longer, which they hardly ever exceed. Nothing is ever fitted through a single size.
 */
export class RunTimes {
  readonly #buckets = new Map<string, BucketRuns>()

  /** Notes a run of so many rows. */
  observe(bucketKey: string, rows: number, ms: number): void {
    let bucket = this.#buckets.get(bucketKey)
    if (bucket === undefined) {
      this.#buckets.set(bucketKey, (bucket = new BucketRuns()))
      if (this.#buckets.size > maxBuckets) this.#buckets.delete(this.#buckets.keys().next().value!)
    }
    bucket.of(rows).add(ms)
  }

  /** Whether any run of this bucket has been seen. */
  knows(bucketKey: string): boolean {
    return this.#buckets.has(bucketKey)
  }

  /** What 99 of 100 runs of so many rows stay below, in milliseconds; 0 when no run has been seen. */
  p99Ms(bucketKey: string, rows: number): number {
    return this.#estimateMs(bucketKey, rows, 0.99)
  }

  /** What a run of so many rows usually takes, in milliseconds; 0 when no run has been seen. */
  medianMs(bucketKey: string, rows: number): number {
    return this.#estimateMs(bucketKey, rows, 0.5)
  }

  #estimateMs(bucketKey: string, rows: number, q: number): number {
    const bucket = this.#buckets.get(bucketKey)
    if (bucket === undefined) return 0
    const measured = bucket.bySize.get(rows)
    if (measured !== undefined) return measured.quantile(q)
    const { sizes } = bucket
    const above = sizes.findIndex((size) => size > rows)
    const ms = (index: number) => bucket.bySize.get(sizes[index]!)!.quantile(q)
    if (above === 0) return ms(0)
    const below = above === -1 ? sizes.length - 1 : above - 1
    const belowMs = ms(below)
    if (above === -1) return (belowMs * rows) / Math.max(1, sizes[below]!)
    const share = (rows - sizes[below]!) / (sizes[above]! - sizes[below]!)
    return belowMs + share * (ms(above) - belowMs)
  }
}
