import type { InferenceSession } from 'onnxruntime-common'
import {
  ThreadEndedError,
  type Executor,
  type ExecutorEvents,
  type OpenedSession,
  type SampleRun,
  type SlotLayout,
} from '../../src/run/executors/executor.ts'
import type { SlotMemory } from '../../src/native/staging-pool.ts'
import type { ThreadSource, WorkerThread } from '../../src/run/worker-threads.ts'
import { deferred } from '../support/deferred.ts'
import { libraryCarrier } from '../../src/tensor/metadata.ts'

/** A batch that was dispatched. */
interface Cell {
  readonly slotId: number
  readonly layoutIndex: number
  /** Whether it is to have all cores. */
  readonly onSecond: boolean
  claimed: boolean
}

interface Slot {
  readonly memory: Extract<SlotMemory, { kind: 'shared' }>
  readonly layouts: SlotLayout[]
}

/** A thread that does nothing by itself: it claims, finishes and dies when it is told to. It computes y = 2 x. */
export class FakeExecutor implements Executor {
  readonly cells: Cell[] = []
  readonly asked: string[] = []
  readonly #threads: FakeThreads
  readonly #events: ExecutorEvents
  readonly #slots = new Map<number, Slot>()
  readonly #questions = new Set<(reason: Error) => void>()
  readonly #reported = deferred<string>()
  begun = false
  gone = false

  constructor(threads: FakeThreads, events: ExecutorEvents) {
    this.#threads = threads
    this.#events = events
  }

  get failure(): Promise<string> {
    return this.#reported.promise
  }

  open(
    sessionId: number,
    model: string | SharedArrayBuffer,
    _options: InferenceSession.SessionOptions,
  ): Promise<OpenedSession> {
    return this.#ask(`open ${sessionId}`, async () => {
      await this.#threads.onOpen(this, sessionId, String(model))
      return this.#threads.opened
    })
  }

  /** As with threads that share sessions. */
  openAhead(): null {
    return null
  }

  runSample(sessionId: number): Promise<SampleRun> {
    return this.#ask(`run ${sessionId}`, async () => {
      await this.#threads.onSample(this, sessionId)
      return { error: null, runMs: 1, outputs: [] }
    })
  }

  close(sessionId: number): Promise<void> {
    return this.#ask(`close ${sessionId}`, async () => {}).catch(() => {})
  }

  defineSlot(slotId: number, _sessionId: number, memory: SlotMemory): void {
    this.#slots.set(slotId, { memory: memory as Slot['memory'], layouts: [] })
  }

  forgetSlot(slotId: number): void {
    this.#slots.delete(slotId)
  }

  defineLayout(slotId: number, layoutIndex: number, layout: SlotLayout): void {
    this.#slots.get(slotId)!.layouts[layoutIndex] = layout
  }

  submit(slotId: number, layoutIndex: number, _mailed: unknown, onSecond = false): void {
    if (this.cells.length === 2) throw new Error('more was dispatched than there are cells')
    if (!this.gone && this.#slots.get(slotId)?.layouts[layoutIndex] === undefined)
      throw new Error(`slot ${slotId} is not known here`)
    if (this.#threads.noMemory) throw new Error('there is no memory for an input')
    this.cells.push({ slotId, layoutIndex, onSecond, claimed: false })
  }

  revoke(slotId: number): boolean {
    const at = this.cells.findIndex((cell) => cell.slotId === slotId && !cell.claimed)
    if (at === -1) return false
    this.cells.splice(at, 1)
    return true
  }

  cancel(slotId: number): boolean {
    this.asked.push('cancel')
    return this.#threads.canStop && this.cells[0]?.slotId === slotId
  }

  cancelWork(sessionId: number): boolean {
    this.asked.push(`cancel ${sessionId}`)
    return this.#threads.canStop
  }

  async shrinkArena(sessionId: number): Promise<void> {
    this.asked.push(`shrink ${sessionId}`)
  }

  arena() {
    return { id: 1, totalBytes: this.#threads.arenaBytes + 10 ** 9, inUseBytes: 10 ** 9, mostInUseBytes: 0 }
  }

  drainCompletions(): void {}

  exit(): Promise<void> {
    this.asked.push('exit')
    this.#leave()
    return Promise.resolve()
  }

  abandon(): void {
    this.asked.push('abandon')
    this.#leave()
  }

  stop(): Promise<void> {
    this.asked.push('stop')
    return Promise.resolve()
  }

  // ── told by a test ──

  /** Starts the next batch, if there is one and none runs. */
  claim(): void {
    const [first] = this.cells
    if (!this.gone && first !== undefined) first.claimed = true
  }

  /** Finishes the batch that runs, which the next one follows at once as on a real thread; false without one. */
  finish(error: string | null = null, tookMs = 1): boolean {
    this.claim()
    const done = this.cells[0]
    if (this.gone || done?.claimed !== true) return false
    if (error === null) this.#compute(done)
    this.cells.shift()
    this.claim()
    this.#events.finished(
      done.slotId,
      { startMs: 0, inferStartMs: 0, inferEndMs: tookMs, endMs: tookMs },
      error,
      null,
    )
    return true
  }

  /**
   * Finishes both batches it has; the report of the first, which goes by message, is on its way while that of the second is
   * read. Returns what has it arrive.
   */
  finishBothLastReportedFirst(): () => void {
    const done = this.cells.splice(0)
    for (const cell of done) this.#compute(cell)
    const [first, last] = done.map(({ slotId }) => () => {
      this.#events.finished(slotId, { startMs: 0, inferStartMs: 0, inferEndMs: 1, endMs: 1 }, null, null)
    })
    last!()
    return first!
  }

  /** Ends the run of a thread that was detached, which writes what it likes into its slot. */
  scribble(): void {
    for (const { slotId, claimed } of this.cells)
      if (claimed) new Float32Array(this.#slots.get(slotId)!.memory.buffer).fill(-1)
  }

  /** The thread is gone; that its port is closed is known before why, as is usual, or after. */
  die(reason = 'it died', knownFirst = false): void {
    if (this.gone || !this.begun) return
    if (knownFirst) this.#reported.resolve(reason)
    this.#leave()
    this.#events.died()
    if (!knownFirst) setImmediate(() => this.#reported.resolve(reason))
  }

  #leave(): void {
    this.gone = true
    for (const reject of this.#questions) reject(new ThreadEndedError())
    this.#questions.clear()
  }

  #ask<T>(what: string, answer: () => Promise<T>): Promise<T> {
    this.asked.push(what)
    return new Promise((resolve, reject) => {
      if (this.gone) return reject(new ThreadEndedError())
      this.#questions.add(reject)
      answer().then(resolve, reject)
    })
  }

  #compute({ slotId, layoutIndex }: Cell): void {
    const { memory, layouts } = this.#slots.get(slotId)!
    const { inputs, outputs } = layouts[layoutIndex]!
    if (this.#threads.compute !== null) return this.#threads.compute(memory.buffer, layouts[layoutIndex]!)
    const [x, y] = [inputs[0]!, outputs[0]!]
    const count = x.dims.reduce((product, dim) => product * dim, 1)
    const values = new Float32Array(memory.buffer, x.offset, count)
    new Float32Array(memory.buffer, y.offset, count).set(values.map((value) => 2 * value))
  }
}

/** Threads for workers, under a test's control. */
export class FakeThreads implements ThreadSource {
  /** All there were, started or not. */
  readonly executors: FakeExecutor[] = []
  started = 0
  /** All workers of the device. */
  workers: ThreadSource['workers'] = []
  /** What a model says of itself when it is opened. */
  opened: OpenedSession = { inputs: [], outputs: [], carrier: libraryCarrier }
  /** What a start waits for, or rejects with. */
  onStart: (executor: FakeExecutor) => Promise<void> = async () => {}
  onOpen: (executor: FakeExecutor, sessionId: number, model: string) => Promise<void> = async () => {}
  onSample: (executor: FakeExecutor, sessionId: number) => Promise<void> = async () => {}

  /** The thread that serves, or is to. */
  get current(): FakeExecutor {
    return this.executors.at(-1)!
  }

  newThread(events: ExecutorEvents): WorkerThread {
    const executor = new FakeExecutor(this, events)
    this.executors.push(executor)
    return {
      executor,
      start: () => this.#start(executor),
      failure: () => executor.failure,
      detach: () => this.#detach(executor),
      end: async () => {},
    }
  }

  async #start(executor: FakeExecutor): Promise<void> {
    this.started++
    executor.begun = true
    const died = executor.failure.then((reason) => {
      throw new Error(reason)
    })
    try {
      await Promise.race([this.onStart(executor), died])
    } catch (error) {
      executor.abandon()
      throw error
    }
  }

  /** What a run computes of the memory of a slot; `null`: y = 2 x. */
  compute: ((memory: SharedArrayBuffer, layout: SlotLayout) => void) | null = null
  /** Whether nothing can be dispatched. */
  noMemory = false
  /** What the arena of each session keeps. */
  arenaBytes = 0
  /** Whether runs can be told to stop. */
  canStop = true
  /** What lets a thread end that was detached. */
  readonly onDetached: (() => void)[] = []

  #detach(executor: FakeExecutor): Promise<void> {
    executor.abandon()
    return new Promise((resolve) => {
      this.onDetached.push(() => {
        executor.scribble()
        resolve()
      })
    })
  }
}
