/** Time and timers as the library sees them; tests inject a fake one. */
export interface Clock {
  /** Monotonic time in milliseconds, with a fraction. */
  nowMs(): number
  /** Runs `callback` once, no earlier than `delayMs` from now, and keeps no process alive for it. */
  setTimer(callback: () => void, delayMs: number): unknown
  clearTimer(timer: unknown): void
}

/** The real clock: `performance.now` and timers that do not hold the event loop. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  // Node drops the fraction: a timer would fire before its time and have to be set again.
  setTimer: (callback, delayMs) => setTimeout(callback, Math.ceil(delayMs)).unref(),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
}
