import type { RunTimestamps } from '../executor.ts'

const ringCapacity = 16 // a power of two, more than a worker is ever given at once
const timesPerRun = 4

/** Words of the control block. Each is written by one side only, except `wake`. */
const word = { stop: 0, busy: 1, wake: 2, submitted: 3, completed: 4, mail: 5, rings: 8 } as const
const submissionWords = 2
const completionsAt = word.rings + ringCapacity * submissionWords
const words = completionsAt + ringCapacity
const timesOffsetBytes = Math.ceil((words * 4) / 8) * 8

/** How long a worker looks for the next batch before it sleeps; saves the wake-up when callers take turns with it. */
const spinMs = 0.03

/**
 * The shared words between the application's thread and one worker: two single-producer single-consumer rings, the
 * flags that make exit safe, and the bell. Sequentially consistent atomics order the ring's content before its tail.
 */
export class ControlBlock {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #times: Float64Array
  #taken = 0 // of the ring this side consumes
  #mailRead = 0

  constructor(buffer = new SharedArrayBuffer(timesOffsetBytes + ringCapacity * timesPerRun * 8)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer, 0, words)
    this.#times = new Float64Array(buffer, timesOffsetBytes)
  }

  // ── application thread ──

  /** Hands a batch to the worker. */
  submit(slotId: number, layoutIndex: number): void {
    const tail = this.#words[word.submitted]!
    const at = word.rings + (tail & (ringCapacity - 1)) * submissionWords
    this.#words[at] = slotId
    this.#words[at + 1] = layoutIndex
    Atomics.store(this.#words, word.submitted, (tail + 1) | 0)
    this.wake()
  }

  /** Tells the worker that a message was posted to its port. */
  announceMail(): void {
    Atomics.add(this.#words, word.mail, 1)
    this.wake()
  }

  /** The slot of the next finished batch, its times written into `times`; -1 for none. */
  takeCompletion(times: RunTimestamps): number {
    if (this.#taken === Atomics.load(this.#words, word.completed)) return -1
    const index = this.#taken & (ringCapacity - 1)
    this.#taken = (this.#taken + 1) | 0
    const at = index * timesPerRun
    times.startMs = this.#times[at]!
    times.inferStartMs = this.#times[at + 1]!
    times.inferEndMs = this.#times[at + 2]!
    times.endMs = this.#times[at + 3]!
    return this.#words[completionsAt + index]!
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

  /** Takes the next batch: `slotId` and `layoutIndex` into `job`; false when there is none. */
  takeSubmission(job: { slotId: number; layoutIndex: number }): boolean {
    if (this.#taken === Atomics.load(this.#words, word.submitted)) return false
    const at = word.rings + (this.#taken & (ringCapacity - 1)) * submissionWords
    this.#taken = (this.#taken + 1) | 0
    job.slotId = this.#words[at]!
    job.layoutIndex = this.#words[at + 1]!
    return true
  }

  /** Reports a finished batch whose outputs lie in its slot. */
  complete(slotId: number, times: RunTimestamps): void {
    const tail = this.#words[word.completed]!
    const index = tail & (ringCapacity - 1)
    const at = index * timesPerRun
    this.#times[at] = times.startMs
    this.#times[at + 1] = times.inferStartMs
    this.#times[at + 2] = times.inferEndMs
    this.#times[at + 3] = times.endMs
    this.#words[completionsAt + index] = slotId
    Atomics.store(this.#words, word.completed, (tail + 1) | 0)
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
