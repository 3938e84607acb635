import { type Clock, systemClock } from 'zerohop/internals'
import type { Sample } from '../input/sample-source.ts'
import type { Recorder } from './recorder.ts'

/** Sends one request. Rejects if it is not answered, or not as expected. */
export type Send = (sample: Sample) => Promise<unknown>

/** Sends requests from start to stop, and reports each to a recorder. */
export interface Load {
  /**
   * Whether it sends requests without waiting for earlier ones. Waiting for all of their answers may then
   * take too long.
   */
  readonly isOpen: boolean
  /** Settles when it has sent all requests and each has ended; never, for a load without an end. */
  readonly finished: Promise<void>
  /** Begins to send. Call it once. */
  start(send: Send, recorder: Recorder): void
  /** Stops sending; resolves when each sent request has ended. May be called more than once. */
  stop(): Promise<void>
}

/** A promise resolved from outside. Resolving it again does nothing. */
export class Ending {
  readonly promise: Promise<void>
  readonly resolve: () => void

  constructor() {
    let resolvePromise!: () => void
    this.promise = new Promise((resolve) => (resolvePromise = resolve))
    this.resolve = resolvePromise
  }
}

/** Time and timers for load generators; tests inject a fake one. */
export interface LoadClock extends Clock {
  /** Calls back in the next turn of the event loop, after everything that is ready now. */
  nextTurn(callback: () => void): void
}

/** For longer times Node.js would not wait at all. Set several timers in a row instead. */
const longestTimerMs = 2 ** 31 - 1

/** The real clock. Its timers keep the process alive, as an idle engine does not. */
export const loadClock: LoadClock = {
  nowMs: systemClock.nowMs,
  setTimer: (callback, delayMs) => setTimeout(callback, Math.min(Math.ceil(delayMs), longestTimerMs)),
  clearTimer: systemClock.clearTimer,
  nextTurn: (callback) => void setImmediate(callback),
}

/** Resolves after this time, or when the signal is aborted. */
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
