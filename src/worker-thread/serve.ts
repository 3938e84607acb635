import { receiveMessageOnPort, type MessagePort, type TransferListItem } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { servable, type TensorMetadata } from '../metadata.ts'
import type { Bell, ControlBlock } from '../executor/binding/control-block.ts'
import type { FromWorker, ToWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps } from '../executor/executor.ts'
import type { MailedTensor } from '../tensor.ts'
import { execute, withMailed } from './execute.ts'
import type { NamedTensors, Runtime, Session } from './onnxruntime.ts'
import { freeReleased } from './slot-bytes.ts'
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
  readonly #toMainMs: number
  readonly #models = new Map<number, OpenModel>()
  readonly #slots = new Map<number, WorkerSlot>()
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
  #exiting = false

  /** @param toMainMs what to add to this thread's `performance.now` to get the application thread's. */
  constructor(
    port: MessagePort,
    control: ControlBlock,
    bell: Bell,
    runtime: Runtime,
    toMainMs: number,
  ) {
    this.#port = port
    this.#control = control
    this.#bell = bell
    this.#runtime = runtime
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
        this.#slots.get(message.slotId)?.release()
        this.#slots.set(message.slotId, new WorkerSlot(message.sessionId, message.memory, this.#runtime.Tensor))
        return
      case 'forget':
        return this.#forget((slotId) => slotId === message.slotId)
      case 'layout': {
        const slot = this.#slots.get(message.slotId)!
        const model = this.#models.get(slot.sessionId)!
        slot.prepare(message.layoutIndex, message.layout, model.inputs, model.outputs)
        return
      }
      case 'run':
        return this.#run(message, message.mailed)
      case 'exit':
        this.#exiting = true
    }
  }

  async #open({ sessionId, path, options }: Extract<ToWorker, { type: 'open' }>): Promise<void> {
    if (!this.#control.enter()) return
    let session: Session
    try {
      session = await this.#runtime.open(path, options)
    } catch (error) {
      this.#post({ type: 'openFailed', sessionId, message: (error as Error).message })
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
    const { session, inputs, outputs } = this.#models.get(sessionId)!
    const named: NamedTensors = {}
    for (const [index, feed] of feeds.entries()) {
      if (feed !== null) named[inputs[index]!.name] = mailedTensor(this.#runtime.Tensor, feed)
    }
    const runMs: number[] = []
    const fetches = Object.fromEntries(outputs.map(({ name }) => [name, null]))
    let error: string | null = null
    if (!this.#control.enter()) return
    try {
      for (let run = 0; run < count; run++) {
        const startMs = performance.now()
        await session.run(named, fetches, true)
        runMs.push(performance.now() - startMs)
      }
    } catch (reason) {
      error = (reason as Error).message
    } finally {
      this.#control.leave()
    }
    this.#post({ type: 'warmedUp', replyId, error, runMs })
  }

  async #close(sessionId: number): Promise<void> {
    this.#forget((_, slot) => slot.sessionId === sessionId)
    const model = this.#models.get(sessionId)
    this.#models.delete(sessionId)
    if (model !== undefined && this.#control.enter()) {
      try {
        await model.session.release()
      } finally {
        this.#control.leave()
      }
    }
    this.#post({ type: 'closed', sessionId })
  }

  #forget(which: (slotId: number, slot: WorkerSlot) => boolean): void {
    const forgotten = [...this.#slots].filter(([slotId, slot]) => which(slotId, slot))
    for (const [slotId, slot] of forgotten) {
      slot.release()
      this.#slots.delete(slotId)
    }
    freeReleased(forgotten.map(([, { bytes }]) => bytes))
  }

  async #run({ slotId, layoutIndex }: Job, mailed: readonly (MailedTensor | null)[] | null): Promise<void> {
    const times = this.#times
    const slot = this.#slots.get(slotId)!
    const { session, inputs, outputs } = this.#models.get(slot.sessionId)!
    const prepared = slot.layouts[layoutIndex]!
    times.startMs = performance.now() + this.#toMainMs
    const feeds: NamedTensors =
      mailed === null ? prepared.feeds : withMailed(prepared.feeds, inputs, mailed, this.#runtime.Tensor)

    if (!this.#control.enter()) return
    times.inferStartMs = performance.now() + this.#toMainMs
    let sent = null
    let error: string | null = null
    try {
      sent = await execute(session, outputs, slot, prepared, feeds)
    } catch (reason) {
      error = reason instanceof Error ? reason.message : String(reason)
    } finally {
      this.#control.leave()
    }
    times.inferEndMs = times.endMs = performance.now() + this.#toMainMs

    if (sent === null && error === null) {
      this.#control.complete(slotId, times)
    } else {
      const { outputs, transfer } = sent ?? { outputs: [], transfer: [] }
      this.#post({ type: 'done', slotId, times: { ...times }, error, outputs }, transfer)
    }
    this.#bell.ring()
  }

  #post(message: FromWorker, transfer: readonly TransferListItem[] = []): void {
    this.#port.postMessage(message, transfer)
  }
}
