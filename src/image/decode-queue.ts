import { availableCores } from '../config/available-cores.ts'
import { invalidArgument } from '../errors.ts'
import { unwatch, watch } from '../request/abort-watch.ts'
import { within } from './time-limit.ts'

/** Decoding runs on libuv's thread pool; what is started beyond that only waits there, with its time running. */
function libuvThreads(): number {
  const asked = Math.floor(Number(process.env['UV_THREADPOOL_SIZE']))
  return asked >= 1 ? asked : 4
}

let limit = Math.min(availableCores().usable, libuvThreads())
let running = 0
/** In the order of their calls. */
const waiting = new Set<() => void>()

/**
 * How many images may be decoded at once in this process; the others wait their turn. Gives the limit, after setting it
 * if a number is given. Default: the cores this process may use, at most `UV_THREADPOOL_SIZE` (4 unless set at start),
 * since decoding runs on libuv's thread pool.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function imageConcurrency(concurrency?: number): number {
  if (concurrency === undefined) return limit
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw invalidArgument('concurrency', 'a whole number of at least 1', concurrency)
  }
  limit = concurrency
  startNext()
  return limit
}

/** What may end the wait for a task before the task ends. */
export interface TurnLimits {
  /** Leaves the line, or rejects while the task runs; either way with its reason. */
  readonly signal?: AbortSignal | undefined
  /** How long the task may take from its start, in milliseconds. */
  readonly timeoutMs: number
  /** What the call rejects with after that. */
  timedOut(): Error
}

/**
 * Runs `task` when fewer than the limit run, in the order of the calls. A task keeps its place until it is done, also when
 * its caller has been answered before.
 */
export async function inTurn<T>(task: () => Promise<T>, limits?: TurnLimits): Promise<T> {
  limits?.signal?.throwIfAborted()
  if (running < limit) running++
  else await place(limits?.signal)
  const work = task().finally(() => {
    running--
    startNext()
  })
  return limits === undefined ? work : within(work, limits.timeoutMs, limits.timedOut, limits.signal)
}

function place(signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const start = (): void => {
      if (signal !== undefined) unwatch(signal, abort)
      resolve()
    }
    const abort = (): void => {
      waiting.delete(start)
      reject(signal!.reason as Error)
    }
    waiting.add(start)
    if (signal !== undefined) watch(signal, abort)
  })
}

/** The place is taken here, not by the woken call: another call could slip in between. */
function startNext(): void {
  for (const start of waiting) {
    if (running >= limit) return
    running++
    waiting.delete(start)
    start()
  }
}
