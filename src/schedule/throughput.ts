/** How much older requests count: each finished batch leaves this share of what was before it. */
const memory = 0.9

/**
 * How fast requests are worked off while there is work, from the last batches. The time of a batch is counted from the
 * end of the one before it, or from its own start when nothing ran before: so several instances and shared workers count
 * as they are.
 */
export class Throughput {
  #requests = 0
  #ms = 0
  #lastMs = -Infinity

  /** Notes a finished batch. */
  finished(requests: number, startedAtMs: number, nowMs: number): void {
    this.#requests = this.#requests * memory + requests
    this.#ms = this.#ms * memory + Math.max(0, nowMs - Math.max(this.#lastMs, startedAtMs))
    this.#lastMs = nowMs
  }

  /** Milliseconds per request; 0 before the first batch. */
  get msPerRequest(): number {
    return this.#requests === 0 ? 0 : this.#ms / this.#requests
  }
}
