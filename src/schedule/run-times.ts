/** How long runs of so many rows take, in milliseconds. */
export interface SizeRunTimes {
  /** What one takes at present. */
  presentMs(rows: number): number
  /** What 99 of 100 stay below. */
  p99Ms(rows: number): number
}

/** What a deadline loses to timers and to the way back. */
export const deadlineMarginMs = 2

/** Runs of one size that say what is usual for it. */
const sizeWindow = 25
/** How many of them the expectation counts for with which a size starts. */
const expectedRuns = 3
/** Runs of all sizes that say how far they spread ... */
const spreadWindow = 100
/** ... and how fast things go at present. */
const paceWindow = 9
/** Runs of a size until which the fastest says what is usual: the first ones are slow, and none is fast by chance. */
const fewRuns = 5
/** Times as fast or slow as usual from which on it is a change of pace, and not of this size. */
const paceThreshold = 1.25
/** Shapes whose runs are remembered; those longest without a run go first. */
const maxBuckets = 128

/**
 * How long a model's runs take, per bucket and batch size. What is usual for a size is the median of its last runs; a
 * size that has not been run lies between its measured neighbours, and above the largest more rows are estimated to take
 * proportionally longer, which they hardly ever exceed. Nothing is ever fitted through a single size.
 *
 * What makes runs slow for a while (a clock rate, a neighbour, a collection of garbage) does so whatever their size. So
 * by how much the last runs of any size differed from what is usual says for all sizes how fast things go at present
 * and how far they spread, and a size that was not run meanwhile is as well known after a slow time as it was before.
 */
export class RunTimes {
  /** How far admission trusts them. */
  readonly safetyFactor = new SafetyFactor()
  readonly #buckets = new Map<string, BucketRuns>()
  #lastKey: string | null = null

  /** Notes a run of so many rows. */
  observe(bucketKey: string, rows: number, ms: number): void {
    let bucket = this.#buckets.get(bucketKey)
    if (bucket === undefined || bucketKey !== this.#lastKey) {
      // In the order in which they were last run.
      this.#buckets.delete(bucketKey)
      this.#buckets.set(bucketKey, (bucket ??= new BucketRuns()))
      if (this.#buckets.size > maxBuckets) this.#buckets.delete(this.#buckets.keys().next().value!)
      this.#lastKey = bucketKey
    }
    bucket.observe(rows, ms)
  }

  /** Whether any run of this bucket has been seen. */
  knows(bucketKey: string): boolean {
    return this.#buckets.has(bucketKey)
  }

  /** Those of one bucket; `null` when no run of it has been seen. */
  of(bucketKey: string): SizeRunTimes | null {
    return this.#buckets.get(bucketKey) ?? null
  }

  /** What a run of so many rows usually takes, slow times left out, in milliseconds; 0 when no run has been seen. */
  medianMs(bucketKey: string, rows: number): number {
    return this.#buckets.get(bucketKey)?.usualMs(rows) ?? 0
  }

  /** What a run of so many rows takes at present, in milliseconds; 0 when no run has been seen. */
  presentMs(bucketKey: string, rows: number): number {
    return this.#buckets.get(bucketKey)?.presentMs(rows) ?? 0
  }

  /**
   * What 99 of 100 runs of so many rows stay below, in milliseconds; 0 when no run has been seen.
   *
   * @param keepsTarget for a latency target, which 99 of 100 are to keep: what delayed short runs is taken for a share of long ones as well.
   */
  p99Ms(bucketKey: string, rows: number, keepsTarget = false): number {
    return this.#buckets.get(bucketKey)?.p99Ms(rows, keepsTarget) ?? 0
  }
}

/** Runs of one bucket. */
class BucketRuns implements SizeRunTimes {
  readonly #bySize = new Map<number, Recent>()
  /** Those of which nothing was expected before they were run. */
  readonly #unforeseen = new Set<number>()
  /** Sizes that have been run, ascending. */
  #sizes: number[] = []
  /** How many times as long as usual for their size the last runs took. */
  readonly #spread = new Recent(spreadWindow)
  /** By how much longer, to the root of what is usual: what comes between (a collection of garbage, another thread) is no longer for a long run. */
  readonly #delays = new Recent(spreadWindow)
  readonly #lastRatios = new Recent(paceWindow)

  observe(rows: number, ms: number): void {
    const sizes = this.#sizes
    const pace = this.#pace
    // A run outside of what is known tells nothing of the pace, only of its size.
    const known = sizes.length > 0 && rows >= sizes[0]! && rows <= sizes.at(-1)!
    const usualMs = known ? this.usualMs(rows) : ms / pace
    // And one in a slow time how slow it is rather than what is usual for its size.
    this.#of(rows, known ? usualMs : null).add(ms / pace)
    const ratio = usualMs > 0 ? ms / usualMs : 1
    this.#spread.add(ratio)
    this.#delays.add(usualMs > 0 ? (ms - usualMs) / Math.sqrt(usualMs) : 0)
    this.#lastRatios.add(ratio)
  }

  presentMs(rows: number): number {
    return this.usualMs(rows) * this.#pace
  }

  p99Ms(rows: number, keepsTarget = false): number {
    const usualMs = this.usualMs(rows)
    const { count } = this.#spread
    if (count < paceWindow) return usualMs
    // The longest of few is not one of 100.
    const q = count < spreadWindow ? (count - 1) / count : 0.99
    const inProportionMs = usualMs * this.#spread.quantile(q)
    return keepsTarget
      ? inProportionMs
      : Math.min(inProportionMs, usualMs + Math.sqrt(usualMs) * this.#delays.quantile(q))
  }

  usualMs(rows: number): number {
    const measured = this.#bySize.get(rows)
    if (measured !== undefined)
      return this.#isHardlyKnown(rows) ? this.#boundMs(rows) : measured.quantile(0.5)
    const sizes = this.#sizes
    if (sizes.length === 0) return 0
    let above = 0
    while (above < sizes.length && sizes[above]! < rows) above++
    if (above === 0) return this.usualMs(sizes[0]!)
    const below = sizes[above - 1]!
    const belowMs = this.usualMs(below)
    if (above === sizes.length)
      return this.#isHardlyKnown(below)
        ? Math.max(belowMs, this.#boundMs(rows))
        : (belowMs * rows) / Math.max(1, below)
    const share = (rows - below) / (sizes[above]! - below)
    return belowMs + share * (this.usualMs(sizes[above]!) - belowMs)
  }

  /** Whether a size was run seldom, and nothing else says what is usual for it. */
  #isHardlyKnown(rows: number): boolean {
    return this.#unforeseen.has(rows) && this.#bySize.get(rows)!.count < fewRuns
  }

  /** What a run of a size that is hardly known takes at most, as far as fewer rows tell: its fastest, or proportionally as long as they. */
  #boundMs(rows: number): number {
    let msPerRow = Infinity
    for (const size of this.#sizes) {
      if (size > rows) break
      const measured = this.#bySize.get(size)!
      const ms = this.#isHardlyKnown(size)
        ? Math.min(measured.quantile(0), size * msPerRow)
        : measured.quantile(0.5)
      if (size === rows) return ms
      msPerRow = Math.min(msPerRow, ms / Math.max(1, size))
    }
    return rows * msPerRow
  }

  /** Times as long as usual that runs take at present; a few say nothing. */
  get #pace(): number {
    const pace = this.#lastRatios.count < paceWindow ? 1 : this.#lastRatios.quantile(0.5)
    return pace > paceThreshold || pace < 1 / paceThreshold ? pace : 1
  }

  #of(rows: number, expectedMs: number | null): Recent {
    let runs = this.#bySize.get(rows)
    if (runs !== undefined) return runs
    this.#bySize.set(rows, (runs = new Recent(sizeWindow)))
    // What its neighbours let expect counts as some runs, so that a single one by chance fast or slow changes nothing.
    if (expectedMs === null) this.#unforeseen.add(rows)
    else for (let run = 0; run < expectedRuns; run++) runs.add(expectedMs)
    this.#sizes = [...this.#sizes, rows].sort((a, b) => a - b)
    return runs
  }
}

/** Share of the admitted requests that may be late: a little less than one of 100. */
const lateShare = 0.0075
/** By how much one batch that is late as a whole raises the factor; one that is in time lowers it by so much less. */
const factorStep = 0.1
const smallestFactor = 0.5
const largestFactor = 4

/**
 * How much of what runs spread by admission keeps free. No estimate is exact: how runs differ depends on what else the
 * machine does, and one that starts late makes all behind it late. So it is learned from the outcome, as a quantile is
 * by stochastic approximation (Robbins and Monro, 1951): every late request raises the factor and every one in time
 * lowers it a little, so that it stays where about `lateShare` of a batch are late on average, whatever the reason.
 */
export class SafetyFactor {
  /** Times the spread that is kept free. */
  factor = 1
  #dropped = 0

  /** Notes an admitted request that was dropped from the queue, as its deadline could no longer be met. */
  dropped(): void {
    this.#dropped++
  }

  /** Notes the requests of a batch that is done. */
  answered(requests: readonly { readonly deadlineAtMs: number | null }[], nowMs: number): void {
    let [admitted, late] = [this.#dropped, this.#dropped]
    this.#dropped = 0
    for (const { deadlineAtMs } of requests) {
      if (deadlineAtMs === null) continue
      admitted++
      if (nowMs > deadlineAtMs) late++
    }
    if (admitted === 0) return
    const share = late / admitted
    this.factor = Math.min(
      largestFactor,
      Math.max(smallestFactor, this.factor * (1 + factorStep * (share - lateShare))),
    )
  }
}

/** The last so many values. */
export class Recent {
  readonly #ring: Float64Array
  readonly #sorted: Float64Array
  #count = 0
  #next = 0

  constructor(window: number) {
    this.#ring = new Float64Array(window)
    this.#sorted = new Float64Array(window)
  }

  add(value: number): void {
    const sorted = this.#sorted
    if (this.#count === sorted.length) {
      const gone = this.#find(this.#ring[this.#next]!)
      sorted.copyWithin(gone, gone + 1)
      this.#count--
    }
    const at = this.#find(value)
    sorted.copyWithin(at + 1, at, this.#count)
    sorted[at] = value
    this.#count++
    this.#ring[this.#next] = value
    this.#next = (this.#next + 1) % sorted.length
  }

  get count(): number {
    return this.#count
  }

  /** Nearest-rank quantile. */
  quantile(q: number): number {
    return this.#sorted[Math.max(0, Math.ceil(q * this.#count) - 1)]!
  }

  #find(value: number): number {
    let low = 0
    let high = this.#count
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#sorted[middle]! < value) low = middle + 1
      else high = middle
    }
    return low
  }
}
