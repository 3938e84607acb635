import { type Clock, systemClock } from 'zerohop/internals'
import type { Sample } from '../input/sample-source.ts'
import type { Recorder } from './recorder.ts'

/** Sends one request; rejects when it is not answered, or not as was expected. */
export type Send = (sample: Sample) => Promise<unknown>

/** Sends requests, each of which it tells a recorder of, from when it is started until it is stopped. */
export interface Load {
  /** Whether requests are sent whatever becomes of those before: what waits may then be more than can be waited for. */
  readonly isOpen: boolean
  /** Settles when it has sent all it had to, and each request has ended; never, for one that has no end. */
  readonly finished: Promise<void>
  /** Begins to send; may be called once. */
  start(send: Send, recorder: Recorder): void
  /** Sends nothing more; resolves when each request that was sent has ended. May be called more than once. */
  stop(): Promise<void>
}

/** A promise that is resolved from outside; resolving it again does nothing. */
export class Ending {
  readonly promise: Promise<void>
  readonly resolve: () => void

  constructor() {
    let resolvePromise!: () => void
    this.promise = new Promise((resolve) => (resolvePromise = resolve))
    this.resolve = resolvePromise
  }
}

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
