import { type HeapItem, IndexedHeap } from '../../base/indexed-heap.ts'
import { invalidArgument } from '../../errors.ts'
import { availableCores } from '../../base/available-resources.ts'
import { unwatch, watch } from '../../request/abort-watch.ts'

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
  for (const line of lines) line.ask()
  return limit
}

/** What may end the wait for a task before the task ends. */
interface TurnLimits {
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

/** What a {@link DecodeLine} has done at its turn. */
export interface DecodeTask extends HeapItem {
  /** Lower ones go first; of one level the one that came first. */
  readonly level: number
  readonly order: number
  /** What it is estimated to take, in milliseconds; 0 where nobody knows. */
  readonly estimatedMs: number
  /** Never rejects; resolves when its place is free again. */
  run(): Promise<void>
}

/** Lines in which something stands or of which something runs. */
const lines = new Set<DecodeLine>()

/**
 * What one model has decoded, the most urgent first. It stands in line for the decoder with no more tasks than may run at once, and
 * says only at its turn which of them it is: so lines take turns however long they are, and what is withdrawn never runs.
 */
export class DecodeLine {
  readonly #tasks = new IndexedHeap<DecodeTask>((a, b) =>
    a.level === b.level ? a.order < b.order : a.level < b.level,
  )
  /** What waits is estimated to take, by level. */
  readonly #waitingMs = new Map<number, number>()
  /** Of those that run, when they are estimated to end. */
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

  /** Takes a task out that has not begun. */
  remove(task: DecodeTask): void {
    this.#tasks.remove(task)
    this.#count(task, -task.estimatedMs)
    this.#leaveIfEmpty()
  }

  /** Whether a task that came now would begin at once. */
  get isIdle(): boolean {
    return this.#tasks.size === 0 && this.#endsAtMs.size === 0 && running < limit
  }

  /** How long a task of a level would wait that came now, in milliseconds: for those before it, for what runs, and for other lines, which take turns. */
  waitMs(level: number): number {
    let ownMs = 0
    for (const [other, ms] of this.#waitingMs) if (other <= level) ownMs += ms
    const nowMs = this.#nowMs()
    let aheadMs = ownMs
    for (const line of lines) {
      for (const endsAtMs of line.#endsAtMs.values()) aheadMs += Math.max(0, endsAtMs - nowMs)
      if (line !== this) aheadMs += Math.min(ownMs, line.#allWaitingMs)
    }
    return aheadMs / limit
  }

  get #allWaitingMs(): number {
    let sumMs = 0
    for (const ms of this.#waitingMs.values()) sumMs += ms
    return sumMs
  }

  #count({ level }: DecodeTask, ms: number): void {
    if (this.#tasks.size === 0) this.#waitingMs.clear() // fractions add up to no exact 0
    else this.#waitingMs.set(level, (this.#waitingMs.get(level) ?? 0) + ms)
  }

  #leaveIfEmpty(): void {
    if (this.#tasks.size === 0 && this.#endsAtMs.size === 0) lines.delete(this)
  }

  /** Stands in line for the decoder as often as it may. */
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
    if (task === null) return // all were withdrawn
    this.#tasks.remove(task)
    this.#count(task, -task.estimatedMs)
    this.#endsAtMs.set(task, this.#nowMs() + task.estimatedMs)
    await task.run()
    this.#endsAtMs.delete(task)
    this.#leaveIfEmpty()
  }
}

/**
 * Settles as `work` does, or rejects before it is done: with what `timedOut` makes after `timeoutMs`, and with the reason of
 * `signal` once that fires. The work itself goes on, unheard.
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
