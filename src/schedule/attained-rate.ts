/** A window has the whole load so many times, and lasts so long, at least. */
const leastLoads = 4
const leastMs = 10
const windows = 6
/** Fewer are enough where they last long. */
const longMs = 500
const leastLongLoads = 2

/**
 * How much is done per millisecond when nothing is in the way: in the second best of six windows, or the best of those that half a
 * second has, at most three, where they last long. What has not been done for long is slow
 * at first, as code is not compiled and threads sleep, and on a shared machine any window may meet something else.
 */
export class AttainedRate {
  readonly #rates: number[] = []
  #runs = 0
  #rows = 0
  #sinceMs = 0
  #windowMs = 0

  /** When it began. */
  get sinceMs(): number {
    return this.#sinceMs
  }

  begin(nowMs: number): void {
    this.#rates.length = this.#runs = this.#rows = 0
    this.#sinceMs = this.#windowMs = nowMs
  }

  /**
   * Notes a finished run.
   *
   * @param parts of the whole load, each of them a run.
   * @returns `null` while there is too little to tell.
   */
  ran(rows: number, parts: number, nowMs: number): number | null {
    this.#rows += rows
    const tookMs = nowMs - this.#windowMs
    const loads = ++this.#runs / parts
    if (loads < (tookMs < longMs ? leastLoads : leastLongLoads) || loads % 1 !== 0 || tookMs < leastMs)
      return null
    this.#rates.push(this.#rows / tookMs)
    this.#runs = this.#rows = 0
    this.#windowMs = nowMs
    if (this.#rates.length < windows && nowMs - this.#sinceMs < longMs) return null
    return this.#rates.sort((one, other) => other - one)[Math.floor(this.#rates.length / 4)]!
  }
}
