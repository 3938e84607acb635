import type { RunTimestamps } from '../executor.ts'

const timesPerRun = 4

/** Words of the control block. `wake`, `mail` and the states of cells are written by both sides, the others by one. */
const word = { stop: 0, busy: 1, wake: 2, completed: 3, mail: 4, cells: 8 } as const
/** A batch that was dispatched: its state, its number among all that were, its slot and its layout. */
const cellWord = { state: 0, number: 1, slotId: 2, layoutIndex: 3 } as const
const cellWords = 4
const cellState = { empty: 0, ready: 1, claimed: 2 } as const

/**
 * How long a worker looks for the next batch before it sleeps; saves the wake-up when callers take turns with it. The
 * application thread needs some 40 µs from a small batch's end to the next: half of them came too late for a spin of 30.
 */
const spinMs = 0.06

/** A batch that the worker has claimed. */
export interface Job {
  cell: number
  slotId: number
  layoutIndex: number
  /** Among all that were dispatched to the worker. */
  number?: number
}

/**
 * The shared words between the application's thread and one worker: cells with the batches that were dispatched, a ring of
 * those that are done, the flags that make exit safe, and the bell. A cell goes from empty to ready by the application's
 * thread; then either the worker claims it or the application's thread revokes it, whichever comes first. Sequentially
 * consistent atomics order what is in a cell and in its slot before its state.
 */
export class ControlBlock {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #times: Float64Array
  /** Where the cells end. */
  readonly #completionsAt: number
  /** A power of two, at least as many as there are cells. */
  readonly #ringCapacity: number
  #submitted = 0
  #taken = 0 // of the ring of completions
  #mailRead = 0

  /**
   * @param buffer what the other thread has made; left out to make one.
   * @param concurrency batches that run at the same time, the same on both sides.
   */
  constructor(buffer?: SharedArrayBuffer, concurrency = 1) {
    const cells = concurrency + 1 // one waits behind those that run, so that the worker finds it without a wake-up
    const ringCapacity = 2 ** Math.ceil(Math.log2(Math.max(4, cells)))
    const completionsAt = word.cells + cells * cellWords
    const words = completionsAt + ringCapacity
    const timesOffsetBytes = Math.ceil((words * 4) / 8) * 8
    this.buffer = buffer ?? new SharedArrayBuffer(timesOffsetBytes + ringCapacity * timesPerRun * 8)
    this.#completionsAt = completionsAt
    this.#ringCapacity = ringCapacity
    this.#words = new Int32Array(this.buffer, 0, words)
    this.#times = new Float64Array(this.buffer, timesOffsetBytes)
  }

  // ── application thread ──

  /** Dispatches a batch to the worker, and gives its number; there must be a cell for it. */
  submit(slotId: number, layoutIndex: number): number {
    let at = word.cells
    while (Atomics.load(this.#words, at) !== cellState.empty) at += cellWords
    this.#submitted = (this.#submitted + 1) | 0
    this.#words[at + cellWord.number] = this.#submitted
    this.#words[at + cellWord.slotId] = slotId
    this.#words[at + cellWord.layoutIndex] = layoutIndex
    Atomics.store(this.#words, at, cellState.ready)
    this.wake()
    return this.#submitted
  }

  /** Revokes the batch of a slot; false when the worker has claimed it. */
  revoke(slotId: number): boolean {
    for (let at = word.cells; at < this.#completionsAt; at += cellWords) {
      if (this.#words[at + cellWord.slotId] !== slotId) continue
      if (Atomics.compareExchange(this.#words, at, cellState.ready, cellState.empty) === cellState.ready)
        return true
    }
    return false
  }

  /** Tells the worker that a message was posted to its port. */
  announceMail(): void {
    Atomics.add(this.#words, word.mail, 1)
    this.wake()
  }

  /** The slot of the next finished batch, its times written into `times`; -1 for none. */
  takeCompletion(times: RunTimestamps): number {
    if (this.#taken === Atomics.load(this.#words, word.completed)) return -1
    const index = this.#taken & (this.#ringCapacity - 1)
    this.#taken = (this.#taken + 1) | 0
    const at = index * timesPerRun
    times.startMs = this.#times[at]!
    times.inferStartMs = this.#times[at + 1]!
    times.inferEndMs = this.#times[at + 2]!
    times.endMs = this.#times[at + 3]!
    return this.#words[this.#completionsAt + index]!
  }

  /** Forbids the worker to enter ONNX Runtime again. */
  stop(): void {
    Atomics.store(this.#words, word.stop, 1)
    this.wake()
  }

  /** Whether the worker is inside ONNX Runtime, where its thread must not be ended. */
  get busy(): boolean {
    return Atomics.load(this.#words, word.busy) === 1
  }

  /** Resolves when the worker has left ONNX Runtime; to be asked after {@link stop}. */
  async left(): Promise<void> {
    while (this.busy) {
      const wait = Atomics.waitAsync(this.#words, word.busy, 1)
      if (wait.async) await wait.value
    }
  }

  /** Blocks this thread until the worker has left ONNX Runtime; false when `limitMs` ran out first. */
  waitUntilNotBusy(limitMs: number): boolean {
    return !this.busy || Atomics.wait(this.#words, word.busy, 1, limitMs) !== 'timed-out' || !this.busy
  }

  // ── worker ──

  /** Enters ONNX Runtime; false when the process is about to end and it must not. Pair with {@link leave}. */
  enter(): boolean {
    Atomics.store(this.#words, word.busy, 1)
    // After the store: either the exit hook sees us busy, or we see its stop.
    if (Atomics.load(this.#words, word.stop) === 0) return true
    this.leave()
    return false
  }

  leave(): void {
    Atomics.store(this.#words, word.busy, 0)
    if (Atomics.load(this.#words, word.stop) === 1) Atomics.notify(this.#words, word.busy)
  }

  get stopped(): boolean {
    return Atomics.load(this.#words, word.stop) === 1
  }

  /** True when messages were posted since the last call. */
  takeMail(): boolean {
    const posted = Atomics.load(this.#words, word.mail)
    if (posted === this.#mailRead) return false
    this.#mailRead = posted
    return true
  }

  /** Claims the batch that was dispatched first and writes it into `job`; false when there is none. */
  claim(job: Job): boolean {
    for (;;) {
      const at = this.#firstReady()
      if (at === -1) return false
      if (Atomics.compareExchange(this.#words, at, cellState.ready, cellState.claimed) !== cellState.ready)
        continue // revoked
      job.cell = at
      job.slotId = this.#words[at + cellWord.slotId]!
      job.layoutIndex = this.#words[at + cellWord.layoutIndex]!
      job.number = this.#words[at + cellWord.number]!
      return true
    }
  }

  /** Reports a finished batch whose outputs lie in its slot. */
  complete({ cell, slotId }: Job, times: RunTimestamps): void {
    const tail = this.#words[word.completed]!
    const index = tail & (this.#ringCapacity - 1)
    const at = index * timesPerRun
    this.#times[at] = times.startMs
    this.#times[at + 1] = times.inferStartMs
    this.#times[at + 2] = times.inferEndMs
    this.#times[at + 3] = times.endMs
    this.#words[this.#completionsAt + index] = slotId
    Atomics.store(this.#words, cell, cellState.empty)
    Atomics.store(this.#words, word.completed, (tail + 1) | 0)
  }

  /** Gives the cell of a batch back that is about to be reported by message. */
  release({ cell }: Job): void {
    Atomics.store(this.#words, cell, cellState.empty)
  }

  /** The bell's count; read it before looking for work, then pass it to {@link sleep}. */
  get wakeCount(): number {
    return Atomics.load(this.#words, word.wake)
  }

  /** Resolves once the bell has rung since `wakeCount` was read: after a short spin, without using the CPU. */
  sleep(wakeCount: number): Promise<unknown> | undefined {
    const spinUntil = performance.now() + spinMs
    do {
      if (this.wakeCount !== wakeCount) return undefined
    } while (performance.now() < spinUntil)
    const wait = Atomics.waitAsync(this.#words, word.wake, wakeCount)
    return wait.async ? wait.value : undefined
  }

  wake(): void {
    Atomics.add(this.#words, word.wake, 1)
    Atomics.notify(this.#words, word.wake)
  }

  #firstReady(): number {
    let first = -1
    for (let at = word.cells; at < this.#completionsAt; at += cellWords) {
      if (Atomics.load(this.#words, at) !== cellState.ready) continue
      if (
        first === -1 ||
        ((this.#words[at + cellWord.number]! - this.#words[first + cellWord.number]!) | 0) < 0
      )
        first = at
    }
    return first
  }
}

/** The bell that workers ring on the application's thread when a batch is finished. */
export class Bell {
  readonly buffer: SharedArrayBuffer
  readonly #word: Int32Array

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer
    this.#word = new Int32Array(buffer)
  }

  get count(): number {
    return Atomics.load(this.#word, 0)
  }

  ring(): void {
    Atomics.add(this.#word, 0, 1)
    Atomics.notify(this.#word, 0)
  }

  /** Resolves once the bell has rung since `count` was read; `undefined` when it has already. */
  heard(count: number): Promise<unknown> | undefined {
    const wait = Atomics.waitAsync(this.#word, 0, count)
    return wait.async ? wait.value : undefined
  }
}
