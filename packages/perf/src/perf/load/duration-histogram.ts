/** Bits of a number's fraction that choose its bucket: 512 between a power of two and the next, so each is within 0.1 %. */
const fractionBits = 9
const shift = 23 - fractionBits
/** Of a quarter of a microsecond: what is shorter counts as that. */
const firstWord = (127 - 2) << fractionBits
/** As far as 2^34 us, almost five hours. */
const buckets = 36 << fractionBits

const scratch = new Float32Array(1)
const word = new Uint32Array(scratch.buffer)

/**
 * How often which duration was seen, in 147 KiB whatever comes: millions of requests a minute would not fit as numbers. Average,
 * deviation and maximum are exact, percentiles within 0.1 %.
 */
export class DurationHistogram {
  readonly #counts = new Float64Array(buckets)
  #count = 0
  #sumUs = 0
  #squaresUs = 0
  #maxUs = 0

  get count(): number {
    return this.#count
  }

  get averageUs(): number {
    return this.#count === 0 ? 0 : this.#sumUs / this.#count
  }

  /** Of a sample, as perf_analyzer has it: divided by one less than the count. */
  get standardDeviationUs(): number {
    if (this.#count < 2) return 0
    return Math.sqrt(Math.max(0, (this.#squaresUs - this.#sumUs * this.averageUs) / (this.#count - 1)))
  }

  get maxUs(): number {
    return this.#maxUs
  }

  record(us: number): void {
    scratch[0] = us
    const index = us > 0 ? (word[0]! >>> shift) - firstWord : 0
    this.#counts[index < 0 ? 0 : index < buckets ? index : buckets - 1]!++
    this.#count++
    this.#sumUs += us
    this.#squaresUs += us * us
    if (us > this.#maxUs) this.#maxUs = us
  }

  /** Counts what another has seen as well. */
  add(other: DurationHistogram): void {
    for (let index = 0; index < buckets; index++) this.#counts[index]! += other.#counts[index]!
    this.#count += other.#count
    this.#sumUs += other.#sumUs
    this.#squaresUs += other.#squaresUs
    this.#maxUs = Math.max(this.#maxUs, other.#maxUs)
  }

  /** The duration at index `round(share * (count - 1))` of all in order, as perf_analyzer has it; 0 where there are none. */
  quantileUs(share: number): number {
    if (this.#count === 0) return 0
    let before = Math.round(share * (this.#count - 1))
    if (before === this.#count - 1) return this.#maxUs
    let index = 0
    while ((before -= this.#counts[index]!) >= 0) index++
    return Math.min(this.#maxUs, bound(index, 0.5))
  }

  /** How many were at most `us`. */
  countUpTo(us: number): number {
    let count = 0
    for (let index = 0; index < buckets && bound(index, 1) <= us * (1 + Number.EPSILON); index++)
      count += this.#counts[index]!
    return count
  }

  /** All of them by size: ascending bounds, `perOctave` between a number and twice as much, and how many lie up to each. */
  bars(perOctave: 1 | 2 | 4 | 8 | 16 | 32): { upToUs: number; count: number }[] {
    const width = (1 << fractionBits) / perOctave
    const bars: { upToUs: number; count: number }[] = []
    for (let first = 0; first < buckets; first += width) {
      let count = 0
      for (let index = first; index < first + width; index++) count += this.#counts[index]!
      if (count > 0) bars.push({ upToUs: bound(first + width - 1, 1), count })
    }
    return bars
  }
}

/** Where in a bucket a number lies: 0.5 its middle, 1 its end. */
function bound(index: number, share: number): number {
  word[0] = ((firstWord + index) << shift) + share * (1 << shift)
  return scratch[0]!
}
