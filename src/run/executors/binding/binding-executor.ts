import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { outsideContext } from '../../../base/async-context.ts'
import { bindingCarrier } from '../../../tensor/metadata.ts'
import type { OpenOptions } from '../../../options/session-options.ts'
import type { SlotMemory } from '../../../native/staging-pool.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import {
  ThreadEndedError,
  type ExecutorEvents,
  type OpenedSession,
  type RunTimestamps,
  type SampleRun,
  type SlotLayout,
} from '../executor.ts'
import type { MailedOutputs, RowFailures } from '../../../schedule/batch.ts'
import { Bell, ControlBlock } from './control-block.ts'
import {
  type ThreadExecutor,
  type WorkerSetup,
  clockOffsetMs,
  type FromWorker,
  type ToWorker,
} from '../protocol.ts'

interface Question {
  resolve(message: FromWorker): void
  reject(reason: Error): void
}

/** The application's end of a thread that runs models through onnxruntime-node: its control block, its port, and what it was asked. */
export class BindingExecutor implements ThreadExecutor, CompletionSource {
  readonly control: ControlBlock
  readonly #port: MessagePort
  protected readonly workerPort: MessagePort
  readonly #completions: CompletionLoop
  protected readonly events: ExecutorEvents
  readonly #questions = new Map<number, Question>()
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
  readonly #closed: Promise<void>
  #lastQuestion = 0
  #outstanding = 0
  /** Whether the thread was told to go. */
  protected leaving = false
  #abandoned = false
  #gone = false

  constructor(completions: CompletionLoop, events: ExecutorEvents, concurrency = 1) {
    this.control = new ControlBlock(undefined, concurrency)
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    this.workerPort = port2
    this.#completions = completions
    this.events = events
    this.#port.on('message', (message: FromWorker) => this.#receive(message))
    // The port closes with the thread, however that ends: the one sign of death that names the worker.
    this.#closed = new Promise((resolve) => this.#port.once('close', () => resolve(this.#onClose())))
    this.#port.unref()
    guardExit(this.control)
  }

  setup(): { setup: WorkerSetup; transferList: MessagePort[] } {
    const setup: WorkerSetup = {
      kind: 'binding',
      port: this.workerPort,
      control: this.control.buffer,
      bell: this.#completions.bell.buffer,
      clockOffsetMs: clockOffsetMs(),
    }
    return { setup, transferList: [this.workerPort] }
  }

  async open(
    sessionId: number,
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ): Promise<OpenedSession> {
    const answer = await this.#ask((questionId) => ({ type: 'open', questionId, sessionId, model, options }))
    if (answer.type === 'refused') throw new Error(answer.message)
    const { inputs, outputs } = answer as Extract<FromWorker, { type: 'opened' }>
    return { inputs, outputs, carrier: bindingCarrier }
  }

  async runSample(
    sessionId: number,
    feeds: readonly (MailedValue | null)[],
    wantsOutputs: boolean,
  ): Promise<SampleRun> {
    const answer = await this.#ask((questionId) => ({
      type: 'runSample',
      questionId,
      sessionId,
      feeds,
      wantsOutputs,
    }))
    if (answer.type === 'refused') return { error: answer.message, runMs: 0, outputs: [] }
    return answer as Extract<FromWorker, { type: 'ranSample' }>
  }

  async close(sessionId: number): Promise<void> {
    await this.#ask((questionId) => ({ type: 'close', questionId, sessionId })).catch(() => {})
  }

  defineSlot(slotId: number, sessionId: number, memory: SlotMemory): void {
    if (memory.kind !== 'shared') throw new Error('onnxruntime-node sees no native memory')
    this.post({ type: 'slot', slotId, sessionId, buffer: memory.buffer, copied: memory.copied })
  }

  forgetSlot(slotId: number): void {
    this.post({ type: 'forget', slotId })
  }

  defineLayout(slotId: number, layoutIndex: number, layout: SlotLayout): void {
    this.post({ type: 'layout', slotId, layoutIndex, layout })
  }

  submit(slotId: number, layoutIndex: number, mailed: readonly (MailedValue | null)[] | null): void {
    if (mailed !== null) this.post({ type: 'inputs', slotId, mailed })
    this.submitted(slotId, this.control.submit(slotId, layoutIndex))
    this.#outstanding++
  }

  /** Batches that are not done, where one of them can be. */
  get outstanding(): number {
    return this.#gone || this.#abandoned ? 0 : this.#outstanding
  }

  listen(): void {
    this.#completions.listen(this)
  }

  revoke(slotId: number): boolean {
    const isRevoked = this.control.revoke(slotId)
    if (isRevoked) this.#outstanding--
    return isRevoked
  }

  /** What onnxruntime-node runs comes to its end. */
  cancel(_slotId: number, _mustEnd: boolean): boolean {
    return false
  }

  cancelWork(): boolean {
    return false
  }

  drainCompletions(): void {
    const times = this.#times
    for (
      let slotId = this.control.takeCompletion(times);
      slotId !== -1;
      slotId = this.control.takeCompletion(times)
    ) {
      this.finished(slotId, times, null, null)
    }
  }

  exit(): Promise<void> {
    this.leaving = true
    if (!this.#gone) this.post({ type: 'exit' })
    return this.#closed
  }

  abandon(): void {
    this.leaving = this.#abandoned = true
    this.control.stop()
    this.#port.close()
  }

  stop(): Promise<void> {
    this.control.stop()
    return this.control.left()
  }

  threadEnded(): void {
    this.control.leave()
  }

  /** A batch is done. */
  protected finished(
    slotId: number,
    times: Readonly<RunTimestamps>,
    error: string | null,
    mailed: MailedOutputs | null,
    failures: RowFailures | null = null,
  ): void {
    this.#outstanding--
    this.events.finished(slotId, times, error, mailed, failures)
  }

  /** A batch was submitted, under this number. */
  protected submitted(_slotId: number, _number: number): void {}

  /** The thread is gone, and was not told to go. */
  protected died(): void {
    this.events.died()
  }

  /** Posts a message and rings the worker's bell. */
  protected post(message: ToWorker): void {
    this.#port.postMessage(message)
    this.control.announceMail()
  }

  #ask(message: (questionId: number) => ToWorker): Promise<FromWorker> {
    return new Promise((resolve, reject) => {
      if (this.#gone) return reject(new ThreadEndedError())
      const questionId = ++this.#lastQuestion
      this.post(message(questionId))
      this.#questions.set(questionId, { resolve, reject })
    })
  }

  #receive(message: FromWorker): void {
    if (message.type === 'done')
      return this.finished(message.slotId, message.times, message.error, message.outputs, message.failures)
    const question = this.#questions.get(message.questionId)
    this.#questions.delete(message.questionId)
    question?.resolve(message)
  }

  #onClose(): void {
    this.#gone = true
    // A thread that is gone is in no run, whatever its last word was; one we gave up on may still be.
    if (!this.#abandoned) this.control.leave()
    void this.control.left().then(() => unguardExit(this.control))
    // What was finished before the end is still good.
    this.drainCompletions()
    const questions = [...this.#questions.values()]
    this.#questions.clear()
    for (const { reject } of questions) reject(new ThreadEndedError())
    if (!this.leaving) this.died()
    this.#completions.bell.ring() // who listens for its batches has to look again: it will not ring itself any more
  }
}

/** What may have finished batches to report. */
export interface CompletionSource {
  readonly outstanding: number
  drainCompletions(): void
}

/** Listens to the bell while anything is outstanding; with nothing outstanding it holds neither timer nor waiter. */
export class CompletionLoop {
  readonly bell: Bell
  /** Those with something outstanding. */
  readonly #sources = new Set<CompletionSource>()
  #busy = false // scanning now, or waiting for the bell

  constructor(bell = new Bell()) {
    this.bell = bell
  }

  /** To be called whenever a batch was submitted. */
  listen(source: CompletionSource): void {
    this.#sources.add(source)
    if (!this.#busy) this.#scan()
  }

  /** Reports what is done, until nothing is outstanding or there is nothing but to wait for the bell. */
  #scan(): void {
    this.#busy = true
    const failures: unknown[] = []
    for (;;) {
      // Read the count first: a batch finished between here and the wait makes the wait return at once.
      const count = this.bell.count
      for (const source of this.#sources) {
        try {
          source.drainCompletions()
        } catch (error) {
          failures.push(error) // the others must not go unheard for it
        }
        if (source.outstanding === 0) this.#sources.delete(source)
      }
      if (this.#sources.size === 0) {
        this.#busy = false
        break
      }
      if (this.#waits(count)) break
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Whether it waits for the bell, in the context of none of those whose batches it waits for. */
  #waits(count: number): boolean {
    return outsideContext(() => {
      const heard = this.bell.heard(count)
      void heard?.then(this.#onRing)
      return heard !== undefined
    })
  }

  readonly #onRing = (): void => this.#scan()
}

/** Longest time a process is held at its exit for runs that are under way. */
const limitMs = 60_000

const blocks = new Set<ControlBlock>()

/**
 * Ending a thread inside ONNX Runtime aborts the whole process, and `process.exit()` or an uncaught exception ends all
 * threads. So at exit no worker may enter ONNX Runtime any more, and those inside are waited for, synchronously.
 */
function stopWorkers(): void {
  const deadlineMs = performance.now() + limitMs
  for (const block of blocks) block.stop()
  for (const block of blocks) block.waitUntilNotBusy(Math.max(0, deadlineMs - performance.now()))
}

/** Has the exit of this process (or worker thread) wait for `block`'s worker. */
function guardExit(block: ControlBlock): void {
  if (blocks.size === 0) process.on('exit', stopWorkers)
  blocks.add(block)
}

/** Ends {@link guardExit}. */
function unguardExit(block: ControlBlock): void {
  if (blocks.delete(block) && blocks.size === 0) process.off('exit', stopWorkers)
}
