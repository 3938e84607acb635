import {
  type StartAnswer,
  type StartTask,
  type WorkerSetup,
  type WorkerReady,
  clockOffsetMs,
  type FromWorker,
  type ToWorker,
} from '../executors/protocol.ts'
import { Bell, ControlBlock, type Job } from '../executors/binding/control-block.ts'
import { Runtime, acceptsSharedMemory } from './onnxruntime.ts'
import { receiveMessageOnPort, type MessagePort } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RunTimestamps } from '../executors/executor.ts'
import { bindingCarrier, servable } from '../../tensor/metadata.ts'
import type { MailedTensor } from '../../tensor/tensor.ts'
import { execute, withMailed, type SentOutputs, type OpenModel, runSample, WorkerSlot } from './execute.ts'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * What Piscina takes by `require()` in each thread with the binding: one CommonJS file, so that a thread reads no other file and starts
 * no loader of ES modules. On Node 20, a thread that is terminated while that loader builds its graph ends the process by a signal.
 *
 * Returns at once and starts to serve afterwards: Piscina holds the process until a task has returned, and loading ONNX Runtime may take
 * its time, or hang.
 */
export default function start({ setup, answer }: StartTask): void {
  const say = (word: StartAnswer): void => answer.postMessage(word)
  setImmediate(() => {
    void serveBinding(setup as Extract<WorkerSetup, { kind: 'binding' }>, say)
  })
}

/** Attaches the control block, loads onnxruntime-node, says how that went, and serves. */
async function serveBinding(
  setup: Extract<WorkerSetup, { kind: 'binding' }>,
  say: (word: StartAnswer) => void,
): Promise<void> {
  const control = new ControlBlock(setup.control)
  let runtime: Runtime | null = null
  try {
    // Loading native code is not to be interrupted either.
    if (!control.enter()) return // the engine no longer waits for this thread
    let ready: WorkerReady
    try {
      runtime = new Runtime()
      ready = { onnxruntimeVersion: runtime.version, acceptsSharedMemory: await acceptsSharedMemory(runtime) }
    } finally {
      control.leave()
    }
    const server = new Server(
      setup.port,
      control,
      new Bell(setup.bell),
      runtime,
      clockOffsetMs() - setup.clockOffsetMs,
    )
    say({ ready })
    void server.serve()
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    say({ failed: { message, code, onnxruntime: runtime === null } })
  }
}

type Question<Type extends ToWorker['type']> = Extract<ToWorker, { type: Type }>

/** How long the loop may run batches before the thread's own event loop gets a turn, in milliseconds. */
const turnEveryMs = 20
/** From here on shared memory that was given back is worth a collection: nothing else can free it. */
const collectedFromBytes = 4 * 2 ** 20

/**
 * Serves batches on a worker's thread: reads mail, runs what is dispatched, sleeps when there is nothing. Whatever goes
 * wrong over a message is answered; a slot that could not be made ready is remembered for the batch that needs it.
 */
export class Server {
  readonly #port: MessagePort
  readonly #control: ControlBlock
  readonly #bell: Bell
  readonly #runtime: Runtime
  readonly #toMainMs: number
  readonly #models = new Map<number, OpenModel>()
  readonly #slots = new Map<number, WorkerSlot>()
  /** Why a slot cannot be used, by slot. */
  readonly #faults = new Map<number, string>()
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
  #exiting = false

  /** @param toMainMs what to add to this thread's `performance.now` to get the application thread's. */
  constructor(port: MessagePort, control: ControlBlock, bell: Bell, runtime: Runtime, toMainMs: number) {
    this.#port = port
    this.#control = control
    this.#bell = bell
    this.#runtime = runtime
    this.#toMainMs = toMainMs
  }

  /** Runs until told to exit. Must not be awaited by the pool's task: a task that never returns holds the process. */
  async serve(): Promise<void> {
    const control = this.#control
    const job: Job = { cell: 0, slotId: 0, layoutIndex: 0 }
    let turnAtMs = this.#nowMs() + turnEveryMs
    while (!control.stopped) {
      const wakeCount = control.wakeCount
      if (control.takeMail()) await this.#readMail()
      if (this.#exiting) break
      if (control.claim(job)) {
        // What the batch needs to be known was posted before it, maybe after the look above.
        if (control.takeMail()) await this.#readMail()
        await this.#run(job)
        if (this.#times.endMs < turnAtMs) continue
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

  async #readMail(): Promise<void> {
    for (
      let mail = receiveMessageOnPort(this.#port);
      mail !== undefined;
      mail = receiveMessageOnPort(this.#port)
    ) {
      await this.#handle(mail.message as ToWorker)
    }
  }

  async #handle(message: ToWorker): Promise<void> {
    switch (message.type) {
      case 'open':
        return this.#answer(message.questionId, () => this.#open(message))
      case 'runSample':
        return this.#answer(message.questionId, () => this.#runSample(message))
      case 'close':
        return this.#answer(message.questionId, () => this.#close(message))
      case 'slot':
        return this.#prepare(message.slotId, () => this.#define(message))
      case 'layout':
        return this.#prepare(message.slotId, () => this.#layOut(message))
      case 'inputs': {
        const slot = this.#slots.get(message.slotId)
        if (slot !== undefined) slot.mailed = message.mailed as (MailedTensor | null)[]
        return
      }
      case 'forget':
        return this.#prepare(message.slotId, () => this.#forget((slotId) => slotId === message.slotId))
      case 'exit':
        this.#exiting = true
    }
  }

  /** Does what was asked inside ONNX Runtime; an exception is the answer, too. */
  async #answer(
    questionId: number,
    work: () => Promise<[answer: FromWorker, transfer?: ArrayBuffer[]]>,
  ): Promise<void> {
    if (!this.#control.enter()) return
    try {
      this.#post(...(await work()))
    } catch (reason) {
      this.#post({ type: 'refused', questionId, message: messageOf(reason) })
    } finally {
      this.#control.leave()
    }
  }

  async #open({ questionId, sessionId, model, options }: Question<'open'>): Promise<[FromWorker]> {
    const session = await this.#runtime.open(model, options)
    const { inputs, outputs } = session
    let served: Pick<OpenModel, 'inputs' | 'outputs'> = { inputs: [], outputs: [] }
    try {
      served = servable('', session, bindingCarrier) as Pick<OpenModel, 'inputs' | 'outputs'> // it carries tensors only
    } catch {
      // The engine finds the same and closes it.
    }
    this.#models.set(sessionId, { session, inputs: served.inputs, outputs: served.outputs })
    return [{ type: 'opened', questionId, inputs, outputs }]
  }

  async #runSample({
    questionId,
    sessionId,
    feeds,
    wantsOutputs,
  }: Question<'runSample'>): Promise<[FromWorker, ArrayBuffer[]]> {
    const model = this.#models.get(sessionId)
    if (model === undefined) throw new Error('The session was closed.')
    const { run, transfer } = await runSample(
      model,
      feeds as (MailedTensor | null)[],
      wantsOutputs,
      this.#runtime.Tensor,
    )
    return [{ type: 'ranSample', questionId, ...run }, transfer]
  }

  async #close({ questionId, sessionId }: Question<'close'>): Promise<[FromWorker]> {
    this.#forget((_, slot) => slot.sessionId === sessionId)
    const model = this.#models.get(sessionId)
    this.#models.delete(sessionId)
    try {
      await model?.session.release()
    } catch {
      // It is out of use all the same, and nothing could be done about it.
    }
    return [{ type: 'closed', questionId }]
  }

  #prepare(slotId: number, step: () => void): void {
    try {
      step()
    } catch (error) {
      this.#faults.set(slotId, messageOf(error))
    }
  }

  #define({ slotId, sessionId, buffer, copied }: Question<'slot'>): void {
    this.#slots.delete(slotId)
    this.#faults.delete(slotId)
    this.#slots.set(slotId, new WorkerSlot(sessionId, buffer, copied, this.#runtime.Tensor))
  }

  #layOut({ slotId, layoutIndex, layout }: Question<'layout'>): void {
    const slot = this.#slots.get(slotId)
    const model = slot && this.#models.get(slot.sessionId)
    if (model === undefined) return // the batch finds the same
    delete slot!.layouts[layoutIndex]
    slot!.prepare(layoutIndex, layout, model.inputs, model.outputs)
  }

  /** Lets go of the memory of slots. */
  #forget(which: (slotId: number, slot: WorkerSlot) => boolean): void {
    let byteLength = 0
    for (const [slotId, slot] of this.#slots) {
      if (!which(slotId, slot)) continue
      this.#slots.delete(slotId)
      this.#faults.delete(slotId)
      byteLength += slot.byteLength
    }
    // Later, when nothing on the stack holds it.
    if (byteLength >= collectedFromBytes) setImmediate(collectGarbage)
  }

  async #run(job: Job): Promise<void> {
    const { slotId, layoutIndex } = job
    const times = this.#times
    const slot = this.#slots.get(slotId)
    const model = slot && this.#models.get(slot.sessionId)
    const prepared = slot?.layouts[layoutIndex]
    times.startMs = times.inferStartMs = this.#nowMs()
    if (!this.#control.enter()) return
    let sent: SentOutputs | null = null
    let error: string | null = null
    try {
      if (model === undefined || prepared === undefined)
        throw new Error(this.#faults.get(slotId) ?? 'The session or its slot was closed.')
      const mailed = slot!.takeMailed(prepared)
      const feeds =
        mailed === null
          ? prepared.feeds
          : withMailed(prepared.feeds, model.inputs, mailed, this.#runtime.Tensor)
      if (mailed !== null) times.inferStartMs = this.#nowMs()
      sent = await execute(model.session, slot!, prepared, feeds)
    } catch (reason) {
      error = messageOf(reason)
    } finally {
      this.#control.leave()
    }
    times.inferEndMs = times.endMs = this.#nowMs()

    if (sent === null && error === null) this.#control.complete(job, times)
    else this.#report(job, error, sent)
    this.#bell.ring()
  }

  /** Answers a batch by message; as a failed one when its outputs cannot be sent. */
  #report(job: Job, error: string | null, sent: SentOutputs | null): void {
    const done = { type: 'done', slotId: job.slotId, times: { ...this.#times } } as const
    this.#control.release(job) // before the message: once it has arrived, the cell may be needed
    try {
      this.#post({ ...done, error, outputs: sent?.outputs ?? [] }, sent?.transfer)
    } catch (reason) {
      this.#post({ ...done, error: messageOf(reason), outputs: [] })
    }
  }

  #post(message: FromWorker, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer)
  }
}

/** The message of an exception, as it is sent. */
function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason)
}

let collect: (() => void) | undefined

/**
 * Has this thread's garbage collected: a thread that waits for work makes none that would start a collection. V8 gives
 * its collector away to new contexts only, and only under a flag, which is not left standing for others to find.
 * (An inspector session would do it too, but keeps the process from ending.)
 */
function collectGarbage(): void {
  collect ??= findCollector()
  collect()
}

function findCollector(): () => void {
  setFlagsFromString('--expose-gc')
  try {
    const found: unknown = runInNewContext('globalThis.gc')
    return typeof found === 'function' ? (found as () => void) : () => {}
  } finally {
    if (!process.execArgv.includes('--expose-gc')) setFlagsFromString('--no-expose-gc')
  }
}
