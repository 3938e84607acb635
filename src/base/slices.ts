import { unwatch, watch } from './abort-watch.ts'

/** Work in pieces. Each `next()` does one piece, which takes a millisecond at most. */
export type Pieces<T> = Generator<void, T, void>

/**
 * Milliseconds per turn of the event loop for all such work together. A request of another client needs about four
 * turns, and more while bodies arrive. With 1 ms per turn, one hostile client tripled the p99 of the others.
 */
const turnMs = 0.5
/** Partial results of smaller tasks are negligible. */
const smallSize = 65_536

/**
 * Does clients' work on the application's thread, about half a millisecond per turn of the event loop. Short work
 * is done at once. Longer tasks have the turns alternately, the smallest and then the oldest: small requests do not
 * wait for large ones, and a task takes at most twice the turns that it and the older ones need, whatever comes later.
 */
export class Slices {
  readonly #nowMs: () => number
  readonly #later: (callback: () => void) => void
  /** In the order of their arrival. */
  readonly #tasks = new Set<Task>()
  /** The large task that goes before older ones. It is the only one, as partial results take memory. */
  #ahead: Task | null = null
  #isTurnOfOldest = true
  /** Time used in this turn. */
  #usedMs = 0
  #turnIsDue = false

  constructor(
    nowMs: () => number = () => performance.now(),
    later: (callback: () => void) => void = setImmediate,
  ) {
    this.#nowMs = nowMs
    this.#later = later
  }

  /**
   * Resolves with the result of the last piece, and rejects if a piece throws.
   *
   * @param size of the work in bytes, to compare it with other work.
   * @param signal aborts it: the promise rejects with its reason.
   */
  run<T>(pieces: Pieces<T>, size: number, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason)
    const task = new Task(pieces, size)
    if (this.#tasks.size === 0 && this.#usedMs < turnMs) this.#go(task)
    this.#turnLater()
    const result = task.outcome === null ? this.#end(task, signal).then(() => resultOf(task)) : resultOf(task)
    return result as Promise<T>
  }

  /** Resolves when the task has its outcome. */
  async #end(task: Task, signal: AbortSignal | undefined): Promise<void> {
    this.#tasks.add(task)
    const onAbort = () => this.#settle(task, { failed: true, value: signal!.reason })
    if (signal !== undefined) watch(signal, onAbort)
    await new Promise<void>((resolve) => (task.settled = resolve))
    if (signal !== undefined) unwatch(signal, onAbort)
  }

  readonly #turn = (): void => {
    this.#turnIsDue = false
    this.#isTurnOfOldest = !this.#isTurnOfOldest
    this.#usedMs = 0
    while (this.#usedMs < turnMs) {
      const task = this.#next()
      if (task === undefined) return
      this.#go(task)
    }
    this.#turnLater()
  }

  #turnLater(): void {
    if (this.#turnIsDue) return
    this.#turnIsDue = true
    this.#later(this.#turn)
  }

  #next(): Task | undefined {
    const [oldest] = this.#tasks
    if (oldest === undefined || this.#isTurnOfOldest) return oldest
    const ahead = this.#ahead === oldest ? null : this.#ahead
    let next = oldest
    for (const task of this.#tasks)
      if (task.size < next.size && (task.size <= smallSize || ahead === null || task === ahead)) next = task
    if (next !== oldest && next.size > smallSize) this.#ahead = next
    return next
  }

  /** Works on the task for as long as this turn allows. */
  #go(task: Task): void {
    const beginMs = this.#nowMs()
    const usedMs = this.#usedMs
    try {
      do {
        const { done, value } = task.pieces.next()
        if (done) this.#settle(task, { failed: false, value })
        this.#usedMs = usedMs + this.#nowMs() - beginMs
      } while (task.outcome === null && this.#usedMs < turnMs)
    } catch (error) {
      this.#usedMs = usedMs + this.#nowMs() - beginMs
      this.#settle(task, { failed: true, value: error })
    }
  }

  #settle(task: Task, outcome: NonNullable<Task['outcome']>): void {
    if (task.outcome !== null) return
    task.outcome = outcome
    this.#tasks.delete(task)
    if (task === this.#ahead) this.#ahead = null
    task.settled()
  }
}

class Task {
  readonly pieces: Pieces<unknown>
  readonly size: number
  /** Its result, or why it failed; `null` before its end. */
  outcome: { readonly failed: boolean; readonly value: unknown } | null = null
  /** Called at its end. */
  settled: () => void = doNothing

  constructor(pieces: Pieces<unknown>, size: number) {
    this.pieces = pieces
    this.size = size
  }
}

function doNothing(): void {}

function resultOf({ outcome }: Task): Promise<unknown> {
  return outcome!.failed ? Promise.reject(outcome!.value) : Promise.resolve(outcome!.value)
}

/** The instance of this thread. */
export const slices = new Slices()

/** Does all pieces at once. */
export function doAll<T>(pieces: Pieces<T>): T {
  for (;;) {
    const { done, value } = pieces.next()
    if (done) return value
  }
}
