/** Looked at by its runs: how long requests wait, and how many found no place or no time. */
export interface Served {
  /** When the request came that has waited longest; `Infinity` for none. */
  readonly oldestAtMs: number
  /** Requests so far that were refused or ran out of time. */
  readonly overloadCount: number
}

/** A request may wait for so many times the usual, and so much longer, for the sake of a trial. */
const mostTimes = 2
const mostLongerMs = 100
/** What waits has been worked off when it waits for no more than so many times the usual. */
const workedOffTimes = 1.25
const workedOffMs = 20

/** What other settings may do to the requests that meet them, by what these are used to. */
export class TrialBounds {
  readonly #model: Served
  /** Of the window that goes on, and of those before it. */
  #waitMs = 0
  #usualWaitMs = 0
  #usualRunMs = 0
  #overloadCount = 0
  #isOverloaded = false

  constructor(model: Served) {
    this.#model = model
  }

  /** A run ended while the settings were in use that requests are used to. */
  see(nowMs: number): void {
    this.#waitMs = Math.max(this.#waitMs, nowMs - this.#model.oldestAtMs)
  }

  /** A window of that is over, in which a run took so long on average. */
  note(runMs: number): void {
    const { overloadCount } = this.#model
    this.#isOverloaded = overloadCount > this.#overloadCount
    this.#overloadCount = overloadCount
    this.#usualWaitMs = Math.max(this.#waitMs, (this.#usualWaitMs + this.#waitMs) / 2)
    this.#usualRunMs = runMs
    this.#waitMs = 0
  }

  /** Whether requests have been refused since then, or ran out of time, as they had not in the window before. */
  get hasRefused(): boolean {
    return !this.#isOverloaded && this.#model.overloadCount > this.#overloadCount
  }

  /** Whether requests wait for too long. */
  isTooSlow(nowMs: number): boolean {
    return nowMs - this.#model.oldestAtMs > mostTimes * this.#usualMs + mostLongerMs
  }

  /** Whether requests wait for no longer than they are used to. */
  isWorkedOff(nowMs: number): boolean {
    return nowMs - this.#model.oldestAtMs <= workedOffTimes * this.#usualMs + workedOffMs
  }

  get #usualMs(): number {
    return this.#usualWaitMs + this.#usualRunMs
  }
}
