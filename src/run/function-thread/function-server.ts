import { Bell, ControlBlock, type Job } from '../executors/binding/control-block.ts'
import {
  clockOffsetMs,
  type FromWorker,
  type ToWorker,
  type StartAnswer,
  type StartTask,
  type WorkerSetup,
} from '../executors/protocol.ts'
import { receiveMessageOnPort, type MessagePort } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RunTimestamps } from '../executors/executor.ts'
import { messageOf } from '../../base/message-of.ts'
import {
  OpenFunction,
  runBatch,
  type BatchOutcome,
  type FunctionSlot,
  type RunContext,
  callOnSample,
} from '../executors/function/run-function.ts'

/**
 * What Piscina takes by `require()` in each thread of a function; see worker-thread/serve.ts. Returns at once and serves
 * afterwards: Piscina holds the process until a task has returned.
 */
export default function start({ setup, answer }: StartTask): void {
  const {
    port,
    control,
    bell,
    clockOffsetMs: offsetMs,
    concurrency,
  } = setup as Extract<WorkerSetup, { kind: 'function' }>
  const server = new FunctionServer(
    port,
    new ControlBlock(control, concurrency),
    new Bell(bell),
    clockOffsetMs() - offsetMs,
    concurrency,
  )
  answer.postMessage({ ready: { onnxruntimeVersion: '' } } satisfies StartAnswer)
  void server.serve()
}

type Question<Type extends ToWorker['type']> = Extract<ToWorker, { type: Type }>

/** How long the loop may run batches before the thread's own event loop gets a turn, in milliseconds. */
const turnEveryMs = 20

/** Serves batches of one function on its thread, as worker-thread/serve.ts does of models; several at the same time where it waits for something. */
class FunctionServer {
  readonly #port: MessagePort
  readonly #control: ControlBlock
  readonly #bell: Bell
  readonly #toMainMs: number
  readonly #concurrency: number
  readonly #slots = new Map<number, FunctionSlot>()
  /** What runs, by its number among all batches. */
  readonly #running = new Map<number, RunContext>()
  #function: OpenFunction | null = null
  /** Batches that were cancelled before they began. */
  readonly #unwanted = new Set<number>()
  #lastBegun = 0
  #exiting = false

  /** @param toMainMs what to add to this thread's `performance.now` to get the application thread's. */
  constructor(port: MessagePort, control: ControlBlock, bell: Bell, toMainMs: number, concurrency: number) {
    this.#port = port
    this.#control = control
    this.#bell = bell
    this.#toMainMs = toMainMs
    this.#concurrency = concurrency
  }

  /** Runs until told to exit. */
  async serve(): Promise<void> {
    const control = this.#control
    let turnAtMs = this.#nowMs() + turnEveryMs
    while (!control.stopped) {
      const wakeCount = control.wakeCount
      if (control.takeMail()) this.#readMail()
      if (this.#exiting) break
      const job = { cell: 0, slotId: 0, layoutIndex: 0, number: 0 }
      if (this.#running.size < this.#concurrency && control.claim(job)) {
        // What the batch needs to be known was posted before it, maybe after the look above.
        if (control.takeMail()) this.#readMail()
        this.#run(job)
        if (this.#nowMs() < turnAtMs) continue
        await nextTurn()
      } else {
        await control.sleep(wakeCount)
      }
      turnAtMs = this.#nowMs() + turnEveryMs
    }
    this.#port.close()
  }

  /** On the application thread's clock, as all times here. */
  #nowMs(): number {
    return performance.now() + this.#toMainMs
  }

  #readMail(): void {
    for (
      let mail = receiveMessageOnPort(this.#port);
      mail !== undefined;
      mail = receiveMessageOnPort(this.#port)
    ) {
      this.#handle(mail.message as ToWorker)
    }
  }

  #handle(message: ToWorker): void {
    switch (message.type) {
      case 'open':
        return void this.#answer(message.questionId, () => this.#open(message))
      case 'runSample':
        return void this.#answer(message.questionId, () => this.#runSample(message))
      case 'close':
        return void this.#answer(message.questionId, () => this.#close(message))
      case 'slot':
        return void this.#slots.set(message.slotId, { bytes: message.buffer, layouts: [], mailed: null })
      case 'layout':
        return this.#layOut(message)
      case 'inputs':
        return this.#take(message)
      case 'forget':
        return void this.#slots.delete(message.slotId)
      case 'unwanted':
        return this.#unwant(message.batch)
      case 'exit':
        this.#exiting = true
    }
  }

  #layOut({ slotId, layoutIndex, layout }: Question<'layout'>): void {
    const slot = this.#slots.get(slotId)
    if (slot !== undefined) slot.layouts[layoutIndex] = layout // else the batch finds the same
  }

  #take({ slotId, mailed }: Question<'inputs'>): void {
    const slot = this.#slots.get(slotId)
    if (slot !== undefined) slot.mailed = mailed
  }

  #unwant(batch: number): void {
    const running = this.#running.get(batch)
    if (running !== undefined) running.unwanted()
    else if (isAfter(batch, this.#lastBegun)) this.#unwanted.add(batch)
  }

  /** Does what was asked; an exception is the answer, too. */
  async #answer(
    questionId: number,
    work: () => Promise<[answer: FromWorker, transfer?: ArrayBuffer[]]>,
  ): Promise<void> {
    try {
      this.#post(...(await work()))
    } catch (reason) {
      this.#post({ type: 'refused', questionId, message: messageOf(reason) })
    }
  }

  async #open({ questionId, model, options }: Question<'open'>): Promise<[FromWorker]> {
    const source = options.function!
    this.#function = await OpenFunction.open(model as string, source)
    return [{ type: 'opened', questionId, inputs: [...source.inputs], outputs: [...source.outputs] }]
  }

  async #runSample({
    questionId,
    feeds,
    wantsOutputs,
  }: Question<'runSample'>): Promise<[FromWorker, ArrayBuffer[]]> {
    const { run, transfer } = await callOnSample(this.#function!, feeds, wantsOutputs)
    return [{ type: 'ranSample', questionId, ...run }, transfer]
  }

  async #close({ questionId }: Question<'close'>): Promise<[FromWorker]> {
    const open = this.#function
    this.#function = null
    this.#slots.clear()
    await open?.teardown()
    return [{ type: 'closed', questionId }]
  }

  /** Starts a batch; it is reported now, or once what the function has promised is there. */
  #run(job: Required<Job>): void {
    const { slotId, layoutIndex, number } = job
    const times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
    this.#lastBegun = number // they are begun in their order
    const outcome = runBatch(this.#function, this.#slots.get(slotId), layoutIndex, times, {
      nowMs: () => this.#nowMs(),
      begins: (context) => {
        this.#running.set(number, context)
        if (this.#unwanted.has(number)) context.unwanted()
      },
    })
    if (this.#unwanted.size > 0) this.#forgetUnwanted()
    if (!(outcome instanceof Promise)) return this.#report(job, times, outcome)
    void outcome.then((settled) => {
      this.#report(job, times, settled)
      this.#control.wake() // for the next one
    })
  }

  /** Those before the one that was begun last were revoked. */
  #forgetUnwanted(): void {
    for (const batch of this.#unwanted) if (!isAfter(batch, this.#lastBegun)) this.#unwanted.delete(batch)
  }

  #report(job: Required<Job>, times: RunTimestamps, { error, sent, failures }: BatchOutcome): void {
    this.#running.delete(job.number)
    if (error === null && sent === null && failures === null) this.#control.complete(job, times)
    else {
      this.#control.release(job) // before the message: once it has arrived, the cell may be needed
      this.#post(
        { type: 'done', slotId: job.slotId, times, error, outputs: sent?.outputs ?? [], failures },
        sent?.transfer,
      )
    }
    this.#bell.ring()
  }

  #post(message: FromWorker, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer)
  }
}

/** Of numbers that begin again at the least one after the highest. */
function isAfter(number: number, other: number): boolean {
  return ((number - other) | 0) > 0
}
