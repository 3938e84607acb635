const firstPauseMs = 60_000
const longestPauseMs = 3_600_000

/** Pauses of which each is twice as long as the one before, up to an hour. */
export class LongerPauses {
  #nextMs = firstPauseMs
  #untilMs = 0

  begin(nowMs: number): void {
    this.#untilMs = nowMs + this.#nextMs
    this.#nextMs = Math.min(longestPauseMs, 2 * this.#nextMs)
  }

  isOver(nowMs: number): boolean {
    return nowMs >= this.#untilMs
  }
}
