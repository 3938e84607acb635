/** Arrivals by which the rate is told. */
const window = 32

/** How many rows arrive per millisecond, by the last requests. */
export class ArrivalRate {
  readonly #atMs = new Float64Array(window)
  readonly #rows = new Float64Array(window)
  #sum = 0
  #count = 0
  #next = 0

  arrived(rows: number, nowMs: number): void {
    this.#sum += rows - this.#rows[this.#next]!
    this.#rows[this.#next] = rows
    this.#atMs[this.#next] = nowMs
    this.#next = (this.#next + 1) % window
    this.#count = Math.min(window, this.#count + 1)
  }

  /** 0 before the first two. */
  rowsPerMs(nowMs: number): number {
    if (this.#count < 2) return 0
    const oldestMs = this.#atMs[(this.#next + window - this.#count) % window]!
    // As many as came in one moment may come in the next one.
    return this.#sum / Math.max(1, nowMs - oldestMs)
  }
}
