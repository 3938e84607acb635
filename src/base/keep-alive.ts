import { MessageChannel } from 'node:worker_threads'

/**
 * Keeps the event loop alive while something is awaited. `Atomics.waitAsync` does not, and a worker thread
 * must not stay alive while idle. A message port that receives nothing has exactly this effect.
 */
export class KeepAlive {
  readonly #port = new MessageChannel().port1
  #holds = 0
  /** Called when waiting begins. */
  onHeld: () => void = () => {}

  constructor() {
    this.#port.unref()
  }

  /** Whether something is awaited. */
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

  /** Closes the port, which otherwise lives on. Nothing may be awaited any more. */
  close(): void {
    this.#port.close()
  }

  /** Keeps the loop alive until `promise` settles. */
  async during<T>(promise: Promise<T>): Promise<T> {
    this.enter()
    try {
      return await promise
    } finally {
      this.leave()
    }
  }
}

/**
 * Tracks whether a model has requests in flight: keeps the process alive meanwhile, and notifies when all
 * have ended.
 */
export class InFlight {
  readonly #keepAlive: KeepAlive
  readonly #onDrained: (() => void)[] = []
  #busy = false
  /** Running batches. */
  running = 0

  constructor(keepAlive: KeepAlive) {
    this.#keepAlive = keepAlive
  }

  /**
   * Call this after requests or batches were added or removed; `waiting` is the number of requests left in
   * the queue.
   */
  update(waiting: number): void {
    const busy = waiting + this.running > 0
    if (busy === this.#busy) return
    this.#busy = busy
    if (busy) return this.#keepAlive.enter()
    this.#keepAlive.leave()
    for (const resolve of this.#onDrained.splice(0)) resolve()
  }

  /** Resolves when no request waits and no batch runs. */
  drained(): Promise<void> {
    if (!this.#busy) return Promise.resolve()
    return new Promise((resolve) => this.#onDrained.push(resolve))
  }
}
