/** Work in pieces. Each `next()` does one piece, which takes a millisecond at most. */
export type Pieces<T> = Generator<void, T, void>

/**
 * Milliseconds per turn of the event loop for all such work together. A request of another client needs about four
 * turns, and more while bodies arrive. With 1 ms per turn, one hostile client tripled the p99 of the others.
 */
const turnMs = 0.5
/** Most tasks in progress, as their partial results take memory. */
const mostBegun = 2
/** Partial results of smaller tasks are negligible. */
const smallSize = 65_536

/**
 * Does clients' work on the application's thread, about half a millisecond per turn of the event loop. Short work
 * is done at once. Among longer tasks the smallest goes first, so that small requests do not wait for large ones.
 */
export class Slices {
  readonly #nowMs: () => number
  readonly #later: (callback: () => void) => void
  readonly #begun = new Set<Task>()
  readonly #waiting = new Set<Task>()
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
  async run<T>(pieces: Pieces<T>, size: number, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    const task = new Task(pieces, size)
    const begins = this.#begun.size === 0 && this.#usedMs < turnMs
    if (begins) this.#go(task)
    this.#turnLater()
    if (!task.isDone) (begins ? this.#begun : this.#waiting).add(task)
    const onAbort = () => this.#settle(task, () => task.reject(signal!.reason))
    if (!task.isDone) signal?.addEventListener('abort', onAbort)
    try {
      return (await task.result) as T
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  readonly #turn = (): void => {
    this.#turnIsDue = false
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

  /** The smallest task, within the limit of tasks in progress. */
  #next(): Task | undefined {
    const begun = smallest(this.#begun)
    const waiting = smallest(this.#waiting)
    if (waiting === undefined || (begun !== undefined && begun.size <= waiting.size)) return begun
    if (this.#begun.size >= mostBegun && waiting.size > smallSize) return begun
    this.#waiting.delete(waiting)
    this.#begun.add(waiting)
    return waiting
  }

  /** Works on the task for as long as this turn allows. */
  #go(task: Task): void {
    const beginMs = this.#nowMs()
    const usedMs = this.#usedMs
    try {
      do {
        const { done, value } = task.pieces.next()
        if (done) this.#settle(task, () => task.resolve(value))
        this.#usedMs = usedMs + this.#nowMs() - beginMs
      } while (!task.isDone && this.#usedMs < turnMs)
    } catch (error) {
      this.#usedMs = usedMs + this.#nowMs() - beginMs
      this.#settle(task, () => task.reject(error))
    }
  }

  #settle(task: Task, settle: () => void): void {
    task.isDone = true
    this.#begun.delete(task)
    this.#waiting.delete(task)
    settle()
  }
}

class Task {
  readonly pieces: Pieces<unknown>
  readonly size: number
  readonly result: Promise<unknown>
  isDone = false
  resolve!: (value: unknown) => void
  reject!: (reason: unknown) => void

  constructor(pieces: Pieces<unknown>, size: number) {
    this.pieces = pieces
    this.size = size
    this.result = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
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

function smallest(tasks: ReadonlySet<Task>): Task | undefined {
  let least: Task | undefined
  for (const task of tasks) if (least === undefined || task.size < least.size) least = task
  return least
}
