import { systemClock } from '../../base/clock.ts'
import { type HeapItem, IndexedHeap } from '../../base/indexed-heap.ts'
import { invalidArgument } from '../../errors.ts'
import { availableCores } from '../../base/available-resources.ts'
import { unwatch, watch } from '../../base/abort-watch.ts'

/**
 * Size of libuv's thread pool, on which decoding runs. A task beyond it would wait there while its time limit
 * runs.
 */
function libuvThreads(): number {
  const asked = Math.floor(Number(process.env['UV_THREADPOOL_SIZE']))
  return asked >= 1 ? asked : 4
}

let limit = Math.min(availableCores().usable, libuvThreads())
let running = 0
/** In order of their calls. */
const waiting = new Set<() => void>()
/** Calls of `decodeImage` that wait or run, and the mean duration of the last calls in milliseconds. */
const calls = { count: 0, meanMs: 0 }
/** The mean is of about this many calls. */
const meanOf = 8

/**
 * Sets (if a number is given) and returns how many images may be decoded at once in this process; further
 * ones wait. Default: the cores this process may use, at most `UV_THREADPOOL_SIZE` (4 unless set at start),
 * as decoding runs on libuv's thread pool.
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
  for (const line of lines) line.ask()
  return limit
}

/** What may end the wait for a task before the task ends. */
interface TurnLimits {
  /**
   * When it fires, a waiting call leaves the queue, and a running one stops waiting for its task. Both reject
   * with its reason.
   */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds the task may take from its start. */
  readonly timeoutMs: number
  /** Makes the error after that time. */
  timedOut(): Error
}

/**
 * Runs `task` when fewer tasks than the limit run, in order of the calls. A task occupies its place until it
 * is done, even if its caller has already been answered.
 */
export async function inTurn<T>(task: () => Promise<T>, limits?: TurnLimits): Promise<T> {
  limits?.signal?.throwIfAborted()
  const isCall = limits !== undefined // lines count their tasks themselves
  if (isCall) calls.count++
  try {
    if (running < limit) running++
    else await place(limits?.signal)
  } catch (aborted) {
    calls.count--
    throw aborted
  }
  const beganAtMs = systemClock.nowMs()
  const work = task().finally(() => {
    if (isCall) callEnded(systemClock.nowMs() - beganAtMs)
    running--
    startNext()
  })
  return isCall ? within(work, limits.timeoutMs, limits.timedOut, limits.signal) : work
}

function callEnded(tookMs: number): void {
  calls.count--
  calls.meanMs += (tookMs - calls.meanMs) / (calls.meanMs === 0 ? 1 : meanOf)
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

/** The place is taken here, not by the woken call; another call could take it in between. */
function startNext(): void {
  for (const start of waiting) {
    if (running >= limit) return
    running++
    waiting.delete(start)
    start()
  }
}

/** A task of a {@link DecodeLine}. */
export interface DecodeTask extends HeapItem {
  /** Lower levels go first; within a level the order of arrival counts. */
  readonly level: number
  readonly order: number
  /** Estimated milliseconds; 0 if unknown. */
  readonly estimatedMs: number
  /** Never rejects. Resolves when its place is free again. */
  run(): Promise<void>
}

/** Lines with waiting or running tasks. */
const lines = new Set<DecodeLine>()

/**
 * The decoding tasks of one model, the most urgent first. A line has at most as many entries in the decoder's
 * queue as may run at once, and picks the task when an entry's turn comes. So the lines of several models
 * alternate however long they are, and a cancelled task never runs.
 */
export class DecodeLine {
  readonly #tasks = new IndexedHeap<DecodeTask>((a, b) =>
    a.level === b.level ? a.order < b.order : a.level < b.level,
  )
  /** Estimated milliseconds of the waiting tasks, by level. */
  readonly #waitingMs = new Map<number, number>()
  /** Estimated end of each running task. A late task is assumed to take as long again as it is late. */
  readonly #endsAtMs = new Map<DecodeTask, number>()
  readonly #nowMs: () => number
  #asked = 0

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  add(task: DecodeTask): void {
    this.#tasks.push(task)
    this.#count(task, task.estimatedMs)
    lines.add(this)
    this.ask()
  }

  /** Removes a task that has not begun. */
  remove(task: DecodeTask): void {
    this.#tasks.remove(task)
    this.#count(task, -task.estimatedMs)
    this.#leaveIfEmpty()
  }

  /** Whether a new task would begin at once. */
  get isIdle(): boolean {
    return this.#tasks.size === 0 && this.#endsAtMs.size === 0 && running < limit
  }

  /**
   * Estimated milliseconds that a new task of this level would wait: for tasks before it, for running ones,
   * for the other lines, which alternate with this one, and for calls of `decodeImage`.
   */
  waitMs(level: number): number {
    let ownMs = 0
    for (const [other, ms] of this.#waitingMs) if (other <= level) ownMs += ms
    const nowMs = this.#nowMs()
    let aheadMs = ownMs + calls.count * calls.meanMs
    for (const line of lines) {
      for (const endsAtMs of line.#endsAtMs.values()) aheadMs += Math.abs(endsAtMs - nowMs)
      if (line !== this) aheadMs += Math.min(ownMs, line.#allWaitingMs)
    }
    return aheadMs / limit
  }

  /** Estimated milliseconds until all tasks that wait or run now are done. */
  get doneInMs(): number {
    const nowMs = this.#nowMs()
    let runningMs = 0
    for (const endsAtMs of this.#endsAtMs.values())
      runningMs = Math.max(runningMs, Math.abs(endsAtMs - nowMs))
    const { size } = this.#tasks
    if (size === 0) return runningMs
    // All decoders share what waits, but the last task has one of them.
    const lastMs = this.#allWaitingMs / size
    return Math.max(runningMs, this.waitMs(Infinity) + lastMs * (1 - 1 / limit))
  }

  get #allWaitingMs(): number {
    let sumMs = 0
    for (const ms of this.#waitingMs.values()) sumMs += ms
    return sumMs
  }

  #count({ level }: DecodeTask, ms: number): void {
    if (this.#tasks.size === 0) this.#waitingMs.clear() // floating-point sums do not return to exactly 0
    else this.#waitingMs.set(level, (this.#waitingMs.get(level) ?? 0) + ms)
  }

  #leaveIfEmpty(): void {
    if (this.#tasks.size === 0 && this.#endsAtMs.size === 0) lines.delete(this)
  }

  /** Enters the decoder's queue, as often as the limit and the tasks allow. */
  ask(): void {
    while (this.#asked < limit && this.#asked - this.#endsAtMs.size < this.#tasks.size) {
      this.#asked++
      void inTurn(this.#turn).then(() => {
        this.#asked--
        this.ask()
      })
    }
  }

  readonly #turn = async (): Promise<void> => {
    const task = this.#tasks.peek()
    if (task === null) return // all were cancelled
    this.#tasks.remove(task)
    this.#count(task, -task.estimatedMs)
    this.#endsAtMs.set(task, this.#nowMs() + task.estimatedMs)
    await task.run()
    this.#endsAtMs.delete(task)
    this.#leaveIfEmpty()
  }
}

/**
 * Settles as `work` does, or rejects earlier: after `timeoutMs` with the error of `timedOut`, or with the
 * reason of `signal` when that fires. The work itself continues, and its result is dropped.
 */
export function within<T>(
  work: Promise<T>,
  timeoutMs: number,
  timedOut: () => Error,
  signal?: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal!.reason as Error)
    const timer = setTimeout(() => reject(timedOut()), timeoutMs)
    if (signal?.aborted === true) onAbort()
    else if (signal !== undefined) watch(signal, onAbort)
    const end = (): void => {
      clearTimeout(timer)
      if (signal !== undefined) unwatch(signal, onAbort)
    }
    work.then(resolve, reject).finally(end)
  })
}
