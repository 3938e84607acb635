import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { InferenceSession } from 'onnxruntime-common'
import type { RawValueMetadata } from '../../metadata.ts'
import { ControlBlock, type Bell } from './control-block.ts'
import { guardExit, unguardExit } from './exit-guard.ts'
import { clockOffsetMs, type FromWorker, type ToWorker, type WorkerSetup } from './protocol.ts'
import type { RunTimestamps } from '../executor.ts'
import type { MailedTensor } from '../../tensor.ts'

/** Told of what happens on a worker. */
export interface WorkerLinkEvents {
  /** A batch is done and its outputs lie in its slot. `times` is reused: read it at once. */
  completed(slotId: number, times: RunTimestamps): void
  /** A batch has failed, or some of its outputs came by message. */
  done(message: Extract<FromWorker, { type: 'done' }>): void
  /** The thread is gone although nobody told it to go. */
  died(): void
}

interface Pending {
  resolve(message: FromWorker): void
  reject(reason: Error): void
}

/** What a session told of itself when it was opened. */
export interface OpenedSession {
  readonly inputs: RawValueMetadata[]
  readonly outputs: RawValueMetadata[]
}

/** The application's end of one worker thread: its control block, its port, and the questions put to it. */
export class WorkerLink {
  readonly control = new ControlBlock()
  readonly #port: MessagePort
  readonly #workerPort: MessagePort
  readonly #bell: Bell
  readonly #events: WorkerLinkEvents
  readonly #pending = new Map<string, Pending>()
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
  readonly #closed: Promise<void>
  #leaving = false
  #abandoned = false
  #gone = false

  constructor(bell: Bell, events: WorkerLinkEvents) {
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    this.#workerPort = port2
    this.#bell = bell
    this.#events = events
    this.#port.on('message', (message: FromWorker) => this.#receive(message))
    // The port closes with the thread, however that ends: the one sign of death that names the worker.
    this.#closed = new Promise((resolve) => this.#port.once('close', () => resolve(this.#onClose())))
    this.#port.unref()
    guardExit(this.control)
  }

  /** What the init task is to be given, and what of it must be moved. */
  setup(): { setup: WorkerSetup; transferList: MessagePort[] } {
    const setup = {
      port: this.#workerPort,
      control: this.control.buffer,
      bell: this.#bell.buffer,
      clockOffsetMs: clockOffsetMs(),
    }
    return { setup, transferList: [this.#workerPort] }
  }

  get gone(): boolean {
    return this.#gone
  }

  /** Posts a message and rings the worker's bell. */
  post(message: ToWorker): void {
    this.#port.postMessage(message)
    this.control.announceMail()
  }

  /**
   * Opens a session; rejects with ONNX Runtime's message, or when the thread dies.
   *
   * @param model its path, or its bytes.
   */
  async open(sessionId: number, model: string | SharedArrayBuffer, options: InferenceSession.SessionOptions): Promise<OpenedSession> {
    const answer = await this.#ask(`open ${sessionId}`, { type: 'open', sessionId, model, options })
    if (answer.type === 'openFailed') throw new Error(answer.message)
    return answer as Extract<FromWorker, { type: 'opened' }>
  }

  /** Runs a session on sample inputs; resolves with what each run took, and ONNX Runtime's message when one failed. */
  async warmup(
    sessionId: number,
    feeds: readonly (MailedTensor | null)[],
    count: number,
    replyId: number,
  ): Promise<{ error: string | null; runMs: readonly number[] }> {
    const answer = await this.#ask(`warmup ${replyId}`, { type: 'warmup', sessionId, feeds, count, replyId })
    return answer as Extract<FromWorker, { type: 'warmedUp' }>
  }

  /** Releases a session; resolves also when the thread dies over it. */
  async close(sessionId: number): Promise<void> {
    if (this.#gone) return
    await this.#ask(`close ${sessionId}`, { type: 'close', sessionId }).catch(() => {})
  }

  /** Reports finished batches to the events. */
  drainCompletions(): void {
    const times = this.#times
    for (let slotId = this.control.takeCompletion(times); slotId !== -1; slotId = this.control.takeCompletion(times)) {
      this.#events.completed(slotId, times)
    }
  }

  /** Asks the thread to end its loop; resolves once it has. */
  exit(): Promise<void> {
    this.#leaving = true
    if (!this.#gone) this.post({ type: 'exit' })
    return this.#closed
  }

  /** Gives up on a thread that never started serving; should it come up after all, it ends its loop. */
  abandon(): void {
    this.#leaving = this.#abandoned = true
    this.control.stop()
    this.#port.close()
  }

  #ask(key: string, message: ToWorker): Promise<FromWorker> {
    return new Promise((resolve, reject) => {
      if (this.#gone) return reject(new Error('The worker thread has ended.'))
      this.#pending.set(key, { resolve, reject })
      this.post(message)
    })
  }

  #receive(message: FromWorker): void {
    switch (message.type) {
      case 'done':
        return this.#events.done(message)
      case 'opened':
      case 'openFailed':
        return this.#answer(`open ${message.sessionId}`, message)
      case 'closed':
        return this.#answer(`close ${message.sessionId}`, message)
      case 'warmedUp':
        return this.#answer(`warmup ${message.replyId}`, message)
    }
  }

  #answer(key: string, message: FromWorker): void {
    const pending = this.#pending.get(key)
    this.#pending.delete(key)
    pending?.resolve(message)
  }

  #onClose(): void {
    this.#gone = true
    // A thread that is gone is in no run, whatever its last word was; one we gave up on may still be.
    if (!this.#abandoned) this.control.leave()
    void this.control.left().then(() => unguardExit(this.control))
    // What was finished before the end is still good.
    this.drainCompletions()
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    for (const { reject } of pending) reject(new Error('The worker thread has ended.'))
    if (!this.#leaving) this.#events.died()
  }
}
