import { receiveMessageOnPort, type MessagePort } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Bell } from '../executor/binding/bell.ts'
import type { ControlBlock, Job } from '../executor/binding/control-block.ts'
import type { FromWorker, ToWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps, SlotLayout } from '../executor/executor.ts'
import type { InputRows } from '../function-run/input-rows.ts'
import { messageOf } from '../function-run/message-of.ts'
import { OpenFunction } from '../function-run/open-function.ts'
import { mailedInputs, slotInputs } from '../function-run/read-inputs.ts'
import type { RunContext } from '../function-run/run-context.ts'
import { writeOutputs, type SentOutputs } from '../function-run/write-outputs.ts'
import type { MailedValue } from '../values.ts'

type Question<Type extends ToWorker['type']> = Extract<ToWorker, { type: Type }>

/** How long the loop may run batches before the thread's own event loop gets a turn, in milliseconds. */
const turnEveryMs = 20

interface Slot {
  readonly bytes: SharedArrayBuffer
  readonly layouts: SlotLayout[]
  mailed: readonly (MailedValue | null)[] | null
}

/** Serves batches of one function on its thread, as worker-thread/serve.ts does of models; several at the same time where it waits for something. */
export class FunctionServer {
  readonly #port: MessagePort
  readonly #control: ControlBlock
  readonly #bell: Bell
  readonly #toMainMs: number
  readonly #concurrency: number
  readonly #slots = new Map<number, Slot>()
  /** What runs, by its number among all batches. */
  readonly #running = new Map<number, RunContext>()
  #function: OpenFunction | null = null
  /** Batches that nobody wants any more, and that were not begun when that was said. */
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
    for (let mail = receiveMessageOnPort(this.#port); mail !== undefined; mail = receiveMessageOnPort(this.#port)) {
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
    else if (batch > this.#lastBegun) this.#unwanted.add(batch)
  }

  /** Does what was asked; an exception is the answer, too. */
  async #answer(questionId: number, work: () => Promise<[answer: FromWorker, transfer?: ArrayBuffer[]]>): Promise<void> {
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

  async #runSample({ questionId, feeds, wantsOutputs }: Question<'runSample'>): Promise<[FromWorker, ArrayBuffer[]]> {
    const inputs = mailedInputs(this.#function!, feeds)
    const context = this.#contextOf(inputs)
    const startMs = performance.now()
    const given = await this.#function!.call(inputs, context)
    const runMs = performance.now() - startMs
    const places = this.#function!.outputs.map(() => null)
    const sent = writeOutputs(this.#function!.outputs, { outputs: places }, new ArrayBuffer(0), given, { rows: context.rows, failed: context.failed, batched: this.#function!.batched })!
    const [failure] = context.failures ?? []
    if (failure !== undefined) throw new Error(failure[1])
    return [{ type: 'ranSample', questionId, error: null, runMs, outputs: wantsOutputs ? (sent.outputs as MailedValue[]) : [] }, wantsOutputs ? sent.transfer : []]
  }

  async #close({ questionId }: Question<'close'>): Promise<[FromWorker]> {
    const open = this.#function
    this.#function = null
    this.#slots.clear()
    await open?.teardown()
    return [{ type: 'closed', questionId }]
  }

  #contextOf(inputs: readonly (InputRows | undefined)[]): RunContext {
    return this.#function!.context(inputs.find((rows) => rows !== undefined)!.rows)
  }

  /** Starts a batch; it is reported now, or once what the function has promised is there. */
  #run(job: Required<Job>): void {
    this.#lastBegun = Math.max(this.#lastBegun, job.number)
    const times: RunTimestamps = { startMs: this.#nowMs(), inferStartMs: 0, inferEndMs: 0, endMs: 0 }
    const slot = this.#slots.get(job.slotId)
    const layout = slot?.layouts[job.layoutIndex]
    try {
      if (slot === undefined || layout === undefined || this.#function === null) throw new Error('The function or the slot of its batch was closed.')
      const inputs = slotInputs(this.#function, layout, slot.bytes, slot.mailed)
      slot.mailed = null
      const context = this.#contextOf(inputs)
      if (this.#unwanted.delete(job.number)) context.unwanted()
      times.inferStartMs = this.#nowMs()
      const given = this.#function.call(inputs, context)
      if (!isThenable(given)) return this.#finish(job, times, slot, layout, context, given)
      this.#running.set(job.number, context)
      // In an order that leaves room for the next batch before anybody is told of this one.
      given.then(
        (result) => this.#settle(job.number, () => this.#finish(job, times, slot, layout, context, result)),
        (reason: unknown) => this.#settle(job.number, () => this.#fail(job, times, reason)),
      )
    } catch (reason) {
      this.#fail(job, times, reason)
    }
  }

  #settle(batch: number, report: () => void): void {
    this.#running.delete(batch)
    report()
    this.#control.wake()
  }

  #finish(job: Job, times: RunTimestamps, slot: Slot, layout: SlotLayout, context: RunContext, given: unknown): void {
    let sent: SentOutputs | null
    times.inferEndMs = this.#nowMs()
    try {
      const { rows, failed } = context
      sent = writeOutputs(this.#function!.outputs, layout, slot.bytes, given, { rows, failed, batched: this.#function!.batched })
    } catch (reason) {
      return this.#fail(job, times, reason)
    }
    times.endMs = this.#nowMs()
    const { failures } = context
    if (sent === null && failures === null) this.#control.complete(job, times)
    else this.#report(job, { type: 'done', slotId: job.slotId, times, error: null, outputs: sent?.outputs ?? [], failures }, sent?.transfer)
    this.#bell.ring()
  }

  #fail(job: Job, times: RunTimestamps, reason: unknown): void {
    times.endMs = this.#nowMs()
    times.inferStartMs ||= times.startMs
    times.inferEndMs ||= times.endMs
    this.#report(job, { type: 'done', slotId: job.slotId, times, error: messageOf(reason), outputs: [] })
    this.#bell.ring()
  }

  #report(job: Job, message: FromWorker, transfer?: readonly ArrayBuffer[]): void {
    this.#control.release(job) // before the message: once it has arrived, the cell may be needed
    this.#post(message, transfer)
  }

  #post(message: FromWorker, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer)
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
