import { receiveMessageOnPort, type MessagePort, type TransferListItem } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { servable, type TensorMetadata } from '../metadata.ts'
import type { Bell, ControlBlock } from '../executor/binding/control-block.ts'
import type { FromWorker, ToWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps } from '../executor/executor.ts'
import type { MailedTensor } from '../tensor.ts'
import { execute, withMailed, type MailedOutputs } from './execute.ts'
import type { NamedTensors, Runtime, Session } from './onnxruntime.ts'
import { WorkerSlot } from './worker-slot.ts'
import { mailedTensor } from './ort-tensors.ts'

interface OpenModel {
  readonly session: Session
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}

interface Job {
  slotId: number
  layoutIndex: number
}

/** How long the loop may run batches before the thread's own event loop gets a turn, in milliseconds. */
const turnEveryMs = 20

/** Serves batches on a worker's thread: reads mail, runs what is handed over, sleeps when there is nothing. */
export class Server {
  readonly #port: MessagePort
  readonly #control: ControlBlock
  readonly #bell: Bell
  readonly #runtime: Runtime
  readonly #view: (leaseId: number) => ArrayBufferLike
  readonly #toMainMs: number
  readonly #models = new Map<number, OpenModel>()
  readonly #slots = new Map<number, WorkerSlot>()
  /** Why a slot or a layout of it could not be prepared: the answer to the batches that come in it. */
  readonly #faults = new Map<number, string>()
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
  #exiting = false

  /** @param toMainMs what to add to this thread's `performance.now` to get the application thread's. */
  constructor(
    port: MessagePort,
    control: ControlBlock,
    bell: Bell,
    runtime: Runtime,
    view: (leaseId: number) => ArrayBufferLike,
    toMainMs: number,
  ) {
    this.#port = port
    this.#control = control
    this.#bell = bell
    this.#runtime = runtime
    this.#view = view
    this.#toMainMs = toMainMs
  }

  /** Runs until told to exit. Must not be awaited by the pool's task: a task that never returns holds the process. */
  async serve(): Promise<void> {
    const control = this.#control
    const job: Job = { slotId: 0, layoutIndex: 0 }
    let turnAtMs = performance.now() + turnEveryMs
    while (!control.stopped) {
      const wakeCount = control.wakeCount
      if (control.takeMail()) await this.#readMail()
      if (this.#exiting) break
      if (control.takeSubmission(job)) {
        // What the batch needs to be known was posted before it, maybe after the look above.
        if (control.takeMail()) await this.#readMail()
        await this.#run(job, null)
        if (performance.now() < turnAtMs) continue
        await nextTurn()
      } else {
        await control.sleep(wakeCount)
      }
      turnAtMs = performance.now() + turnEveryMs
    }
    this.#port.close()
  }

  async #readMail(): Promise<void> {
    for (let mail = receiveMessageOnPort(this.#port); mail !== undefined; mail = receiveMessageOnPort(this.#port)) {
      await this.#handle(mail.message as ToWorker)
    }
  }

  async #handle(message: ToWorker): Promise<void> {
    switch (message.type) {
      case 'open':
        return this.#open(message)
      case 'warmup':
        return this.#warmup(message)
      case 'close':
        return this.#close(message.sessionId)
      case 'slot':
        return this.#prepare(message.slotId, () => this.#define(message))
      case 'layout':
        return this.#prepare(message.slotId, () => this.#layOut(message))
      case 'run':
        return this.#run(message, message.mailed)
      case 'exit':
        this.#exiting = true
    }
  }

  #prepare(slotId: number, step: () => void): void {
    try {
      step()
    } catch (error) {
      this.#faults.set(slotId, messageOf(error))
    }
  }

  #model(sessionId: number): OpenModel {
    const model = this.#models.get(sessionId)
    if (model === undefined) throw new Error('The session was closed.')
    return model
  }

  #define({ slotId, sessionId, memory }: Extract<ToWorker, { type: 'slot' }>): void {
    this.#slots.delete(slotId)
    this.#faults.delete(slotId)
    this.#slots.set(slotId, new WorkerSlot(sessionId, memory, this.#view, this.#runtime.Tensor))
  }

  #layOut({ slotId, layoutIndex, layout }: Extract<ToWorker, { type: 'layout' }>): void {
    const slot = this.#slots.get(slotId)
    const model = slot && this.#models.get(slot.sessionId)
    if (model === undefined) return // the batch finds the same
    delete slot!.layouts[layoutIndex]
    slot!.prepare(layoutIndex, layout, model.inputs, model.outputs)
  }

  async #open({ sessionId, path, options }: Extract<ToWorker, { type: 'open' }>): Promise<void> {
    if (!this.#control.enter()) return
    let session: Session
    try {
      session = await this.#runtime.open(path, options)
    } catch (error) {
      this.#post({ type: 'openFailed', sessionId, message: messageOf(error) })
      return
    } finally {
      this.#control.leave()
    }
    const { inputs, outputs } = session
    this.#post({ type: 'opened', sessionId, inputs, outputs })
    try {
      this.#models.set(sessionId, { session, ...servable('', inputs, outputs) })
    } catch {
      this.#models.set(sessionId, { session, inputs: [], outputs: [] }) // the engine finds the same and closes it
    }
  }

  async #warmup({ sessionId, feeds, count, replyId }: Extract<ToWorker, { type: 'warmup' }>): Promise<void> {
    const runMs: number[] = []
    let error: string | null = null
    if (!this.#control.enter()) return
    try {
      const { session, inputs, outputs } = this.#model(sessionId)
      const named: NamedTensors = {}
      for (const [index, feed] of feeds.entries()) {
        if (feed !== null) named[inputs[index]!.name] = mailedTensor(this.#runtime.Tensor, feed)
      }
      const fetches = Object.fromEntries(outputs.map(({ name }) => [name, null]))
      for (let run = 0; run < count; run++) {
        const startMs = performance.now()
        await session.run(named, fetches, true)
        runMs.push(performance.now() - startMs)
      }
    } catch (reason) {
      error = messageOf(reason)
    } finally {
      this.#control.leave()
    }
    this.#post({ type: 'warmedUp', replyId, error, runMs })
  }

  async #close(sessionId: number): Promise<void> {
    for (const [slotId, slot] of this.#slots) if (slot.sessionId === sessionId) this.#slots.delete(slotId)
    const model = this.#models.get(sessionId)
    this.#models.delete(sessionId)
    if (model !== undefined && this.#control.enter()) {
      try {
        await model.session.release()
      } catch {
        // It is out of use all the same, and nobody could do anything about it.
      } finally {
        this.#control.leave()
      }
    }
    this.#post({ type: 'closed', sessionId })
  }

  async #run({ slotId, layoutIndex }: Job, mailed: readonly (MailedTensor | null)[] | null): Promise<void> {
    const times = this.#times
    const slot = this.#slots.get(slotId)
    const model = slot && this.#models.get(slot.sessionId)
    const prepared = slot?.layouts[layoutIndex]
    times.startMs = times.inferStartMs = performance.now() + this.#toMainMs
    if (!this.#control.enter()) return
    let sent: MailedOutputs | null = null
    let error: string | null = null
    try {
      if (model === undefined || prepared === undefined) throw new Error(this.#faults.get(slotId) ?? 'The session or its slot was closed.')
      const feeds: NamedTensors =
        mailed === null ? prepared.feeds : withMailed(prepared.feeds, model.inputs, mailed, this.#runtime.Tensor)
      times.inferStartMs = performance.now() + this.#toMainMs
      sent = await execute(model.session, model.outputs, slot!, prepared, feeds)
    } catch (reason) {
      error = messageOf(reason)
    } finally {
      this.#control.leave()
    }
    times.inferEndMs = times.endMs = performance.now() + this.#toMainMs

    if (sent === null && error === null) this.#control.complete(slotId, times)
    else this.#report(slotId, error, sent)
    this.#bell.ring()
  }

  /** Answers a batch by message; as a failed one when its outputs cannot be sent. */
  #report(slotId: number, error: string | null, sent: MailedOutputs | null): void {
    const done = { type: 'done', slotId, times: { ...this.#times } } as const
    try {
      this.#post({ ...done, error, outputs: sent?.outputs ?? [] }, sent?.transfer)
    } catch (reason) {
      this.#post({ ...done, error: messageOf(reason), outputs: [] })
    }
  }

  #post(message: FromWorker, transfer: readonly TransferListItem[] = []): void {
    this.#port.postMessage(message, transfer)
  }
}

/** What is sent of an exception. */
function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason)
}
