import type { KeepAlive } from '../run/keep-alive.ts'

/** Whether a model has anything in flight: holds the process meanwhile, and tells who waits for the end. */
export class InFlight {
  readonly #keepAlive: KeepAlive
  readonly #onDrained: (() => void)[] = []
  #busy = false
  /** Batches that run. */
  running = 0

  constructor(keepAlive: KeepAlive) {
    this.#keepAlive = keepAlive
  }

  /** To be called after requests or batches came or went; `waiting` requests are left. */
  update(waiting: number): void {
    const busy = waiting + this.running > 0
    if (busy === this.#busy) return
    this.#busy = busy
    if (busy) return this.#keepAlive.enter()
    this.#keepAlive.leave()
    for (const resolve of this.#onDrained.splice(0)) resolve()
  }

  /** Resolves when nothing waits and nothing runs. */
  drained(): Promise<void> {
    if (!this.#busy) return Promise.resolve()
    return new Promise((resolve) => this.#onDrained.push(resolve))
  }
}
