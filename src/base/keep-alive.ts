import { MessageChannel } from 'node:worker_threads'

/**
 * Holds the event loop while there is something to wait for. `Atomics.waitAsync` does not hold it by itself, and a
 * worker thread must not hold it while idle; a port that nothing is ever posted to does exactly what is needed.
 */
export class KeepAlive {
  readonly #port = new MessageChannel().port1
  #holds = 0
  /** Called when there comes to be something to wait for. */
  onHeld: () => void = () => {}

  constructor() {
    this.#port.unref()
  }

  /** Whether there is something to wait for. */
  get held(): boolean {
    return this.#holds > 0
  }

  enter(): void {
    if (this.#holds++ > 0) return
    this.#port.ref()
    this.onHeld()
  }

  leave(): void {
    if (--this.#holds === 0) this.#port.unref()
  }

  /** Gives the port up, which lives until it is closed; nothing may be held any more. */
  close(): void {
    this.#port.close()
  }

  /** Holds the loop until `promise` settles. */
  async during<T>(promise: Promise<T>): Promise<T> {
    this.enter()
    try {
      return await promise
    } finally {
      this.leave()
    }
  }
}

/** Whether a model has anything in flight: holds the process meanwhile, and says when all of it has ended. */
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
