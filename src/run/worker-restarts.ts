import type { Clock } from '../base/clock.ts'

/** How long the first, second, third ... death in a row is followed by nothing; the last of them for all further ones. */
const delaysMs = [0, 100, 1000, 5000]
/** Threads in a row that may fail to come up before none is tried any more. */
const maxFailedStarts = 3
/** What a start is reckoned to take before one was seen. */
const usualStartMs = 300

/** When a worker's dead thread is replaced, and when no more is tried. */
export class WorkerRestarts {
  readonly #clock: Clock
  readonly #restart: () => void
  #timer: unknown = null
  #deaths = 0
  #failedStarts = 0
  #startMs = usualStartMs
  /** Threads that came up. */
  starts = 0
  #servesAtMs = 0

  constructor(clock: Clock, restart: () => void) {
    this.#clock = clock
    this.#restart = restart
  }

  /** In how many milliseconds the next thread is reckoned to serve. */
  get servesInMs(): number {
    return Math.max(1, this.#servesAtMs - this.#clock.nowMs())
  }

  /** A run was finished: deaths before it are forgotten. */
  worked(): void {
    this.#deaths = 0
  }

  /** A thread came up, after so long. */
  took(startMs: number): void {
    this.starts++
    this.#startMs = startMs
    this.#failedStarts = 0
  }

  /** A thread died: calls `restart` when it is time. */
  schedule(): void {
    const delayMs = delaysMs[Math.min(this.#deaths++, delaysMs.length - 1)]!
    this.#servesAtMs = this.#clock.nowMs() + delayMs + this.#startMs
    this.#timer = this.#clock.setTimer(this.#restart, delayMs)
  }

  /** A thread did not come up: tries another one, or tells by false that there were enough. */
  failed(): boolean {
    if (++this.#failedStarts > maxFailedStarts) return false
    this.schedule()
    return true
  }

  /** Restarts nothing any more; gives what `end` resolves to, or false when that takes longer than `timeoutMs`. */
  async within(timeoutMs: number, end: Promise<boolean>): Promise<boolean> {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    let timer: unknown
    const timedOut = new Promise<boolean>((resolve) => {
      timer = this.#clock.setTimer(() => resolve(false), timeoutMs)
    })
    const ended = await Promise.race([end, timedOut])
    this.#clock.clearTimer(timer)
    return ended
  }
}
