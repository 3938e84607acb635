/** Time and timers as the library sees them; tests inject a fake one. */
export interface Clock {
  /** Monotonic time in milliseconds, with a fraction. */
  nowMs(): number
  /** Runs `callback` once, no earlier than `delayMs` from now. The timer does not keep the process alive. */
  setTimer(callback: () => void, delayMs: number): unknown
  clearTimer(timer: unknown): void
}

/** The real clock: `performance.now`, and timers that do not keep the event loop alive. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  // Node drops the fraction: the timer would fire early and have to be set again.
  setTimer: (callback, delayMs) => setTimeout(callback, Math.ceil(delayMs)).unref(),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
}
