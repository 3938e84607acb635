import { systemClock, type Clock } from 'zerohop/internals'

/** Time as generators of load see it; tests inject a fake one. */
export interface LoadClock extends Clock {
  /** Calls back in the next turn of the event loop, after what is ready now. */
  nextTurn(callback: () => void): void
}

/** What is longer, Node.js would not wait for at all. Who has to wait longer looks at the clock, and sets another. */
const longestTimerMs = 2 ** 31 - 1

/** The real clock; its timers keep the process alive, as nothing else does while the engine is idle. */
export const loadClock: LoadClock = {
  nowMs: systemClock.nowMs,
  setTimer: (callback, delayMs) => setTimeout(callback, Math.min(Math.ceil(delayMs), longestTimerMs)),
  clearTimer: systemClock.clearTimer,
  nextTurn: (callback) => void setImmediate(callback),
}

/** Resolves after so long, or as soon as the signal is aborted. */
export function pause(clock: LoadClock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      signal?.removeEventListener('abort', end)
      clock.clearTimer(timer)
      resolve()
    }
    const timer = clock.setTimer(end, delayMs)
    signal?.addEventListener('abort', end)
  })
}
