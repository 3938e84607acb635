import { percentile } from './statistics.ts'

/** How late work on the event loop began, in milliseconds. */
export interface LoopDelay {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

const intervalMs = 5

/**
 * Looks at how late a timer of 5 ms fires. A timer that is 100 ms late stands for the twenty that could not even be
 * set meanwhile: each counts with the delay it would have had, or one long stall would be lost among many good looks.
 */
export class LoopDelayProbe {
  readonly #delaysMs: number[] = []
  #dueMs = 0
  #stopped: (() => void) | null = null

  start(): void {
    this.#dueMs = performance.now() + intervalMs
    setTimeout(this.#look, intervalMs)
  }

  /** Resolves after the next look, so that a stall at the end counts too. */
  async stop(): Promise<LoopDelay> {
    await new Promise<void>((resolve) => (this.#stopped = resolve))
    const delays = this.#delaysMs
    return { p50Ms: percentile(delays, 0.5), p99Ms: percentile(delays, 0.99), maxMs: percentile(delays, 1) }
  }

  readonly #look = (): void => {
    let delayMs = Math.max(0, performance.now() - this.#dueMs)
    for (; delayMs > intervalMs; delayMs -= intervalMs) this.#delaysMs.push(delayMs)
    this.#delaysMs.push(delayMs)
    if (this.#stopped === null) this.start()
    else this.#stopped()
  }
}
