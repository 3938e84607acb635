import { receiveMessageOnPort, type MessagePort, type TransferListItem } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { servable, type TensorMetadata } from '../metadata.ts'
import type { Bell } from '../executor/binding/bell.ts'
import type { ControlBlock, Job } from '../executor/binding/control-block.ts'
import type { FromWorker, ToWorker } from '../executor/binding/protocol.ts'
import type { RunTimestamps } from '../executor/executor.ts'
import { execute, withMailed } from './execute.ts'
import type { NamedTensors, Runtime, Session } from './onnxruntime.ts'
import { WorkerSlot } from './worker-slot.ts'
import { byName, mailedTensor } from './ort-tensors.ts'

interface OpenModel {
  readonly session: Session
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
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
    const job: Job = { cell: 0, slotId: 0, layoutIndex: 0 }
    let turnAtMs = performance.now() + turnEveryMs
    while (!control.stopped) {
      const wakeCount = control.wakeCount
      if (control.takeMail()) await this.#readMail()
      if (this.#exiting) break
      if (control.claim(job)) {
        // What the batch needs to be known was posted before it, maybe after the look above.
        if (control.takeMail()) await this.#readMail()
        await this.#run(job)
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
      case 'runSample':
        return this.#runSample(message)
      case 'close':
        return this.#close(message)
      case 'slot':
        this.#slots.set(message.slotId, new WorkerSlot(message.sessionId, message.memory, this.#view, this.#runtime.Tensor))
        return
      case 'layout': {
        const slot = this.#slots.get(message.slotId)!
        const model = this.#models.get(slot.sessionId)!
        slot.prepare(message.layoutIndex, message.layout, model.inputs, model.outputs)
        return
      }
      case 'inputs':
        this.#slots.get(message.slotId)!.mailed = message.mailed
        return
      case 'exit':
        this.#exiting = true
    }
  }

  async #open({ questionId, sessionId, path, options }: Extract<ToWorker, { type: 'open' }>): Promise<void> {
    if (!this.#control.enter()) return
    let session: Session
    try {
      session = await this.#runtime.open(path, options)
    } catch (error) {
      this.#post({ type: 'refused', questionId, message: (error as Error).message })
      return
    } finally {
      this.#control.leave()
    }
    const { inputs, outputs } = session
    this.#post({ type: 'opened', questionId, inputs, outputs })
    try {
      this.#models.set(sessionId, { session, ...servable('', inputs, outputs) })
    } catch {
      this.#models.set(sessionId, { session, inputs: [], outputs: [] }) // the engine finds the same and closes it
    }
  }

  async #runSample({ questionId, sessionId, feeds }: Extract<ToWorker, { type: 'runSample' }>): Promise<void> {
    const { session, inputs, outputs } = this.#models.get(sessionId)!
    const named: NamedTensors = byName()
    for (const [index, feed] of feeds.entries()) {
      if (feed !== null) named[inputs[index]!.name] = mailedTensor(this.#runtime.Tensor, feed)
    }
    const fetches = byName<null>()
    for (const { name } of outputs) fetches[name] = null
    let error: string | null = null
    if (!this.#control.enter()) return
    const startMs = performance.now()
    try {
      await session.run(named, fetches, true)
    } catch (reason) {
      error = (reason as Error).message
    } finally {
      this.#control.leave()
    }
    this.#post({ type: 'ranSample', questionId, error, runMs: performance.now() - startMs })
  }

  async #close({ questionId, sessionId }: Extract<ToWorker, { type: 'close' }>): Promise<void> {
    for (const [slotId, slot] of this.#slots) if (slot.sessionId === sessionId) this.#slots.delete(slotId)
    const model = this.#models.get(sessionId)
    this.#models.delete(sessionId)
    if (model !== undefined && this.#control.enter()) {
      try {
        await model.session.release()
      } finally {
        this.#control.leave()
      }
    }
    this.#post({ type: 'closed', questionId })
  }

  async #run(job: Job): Promise<void> {
    const { slotId, layoutIndex } = job
    const times = this.#times
    const slot = this.#slots.get(slotId)!
    const { session, inputs } = this.#models.get(slot.sessionId)!
    const prepared = slot.layouts[layoutIndex]!
    times.startMs = performance.now() + this.#toMainMs
    const { mailed } = slot
    slot.mailed = null
    const feeds: NamedTensors =
      mailed === null ? prepared.feeds : withMailed(prepared.feeds, inputs, mailed, this.#runtime.Tensor)

    if (!this.#control.enter()) return
    times.inferStartMs = performance.now() + this.#toMainMs
    let sent = null
    let error: string | null = null
    try {
      sent = await execute(session, slot, prepared, feeds)
    } catch (reason) {
      error = reason instanceof Error ? reason.message : String(reason)
    } finally {
      this.#control.leave()
    }
    times.inferEndMs = times.endMs = performance.now() + this.#toMainMs

    if (sent === null && error === null) {
      this.#control.complete(job, times)
    } else {
      const { outputs, transfer } = sent ?? { outputs: [], transfer: [] }
      this.#control.release(job) // before the message: once it has arrived, the cell may be needed
      this.#post({ type: 'done', slotId, times: { ...times }, error, outputs }, transfer)
    }
    this.#bell.ring()
  }

  #post(message: FromWorker, transfer: readonly TransferListItem[] = []): void {
    this.#port.postMessage(message, transfer)
  }
}
