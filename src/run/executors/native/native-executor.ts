import { freeTurns, nextTurn, stretchMs, systemClock } from '../../../base/clock.ts'
import type { OpenOptions } from '../../../options/session-options.ts'
import type {
  NativeBinding,
  NativeCompletionDetails,
  NativeCompletionHub,
  NativeRunLoop,
} from '../../../native/native-binding.ts'
import type { SlotMemory } from '../../../native/staging-pool.ts'
import { libraryCarrier, type RawValueMetadata } from '../../../tensor/metadata.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import {
  ThreadEndedError,
  type Executor,
  type ExecutorEvents,
  type OpenedSession,
  type OpeningAhead,
  type RunTimestamps,
  type SampleRun,
  type SlotLayout,
  bytesId,
} from '../executor.ts'
import type { Arena } from '../../../observe/model-statistics.ts'
import type { MailedOutputs } from '../../../schedule/batch.ts'
import type { WorkerThread } from '../../worker-threads.ts'
import { clockOffsetMs, noLongerStopAtExit, stopAtExit, type NativeOrt } from './native-ort.ts'
import { openAhead, placed, servedPlaces, sessionSettings, sharable } from './session-opener.ts'

interface Question {
  readonly sessionId: number
  resolve(answer: Answer): void
  reject(reason: Error): void
}

interface Answer {
  readonly runMs: number
  readonly details: NativeCompletionDetails | null
}

/** Where a session has the inputs and outputs that are served. */
interface Places {
  /** Places among all inputs, the initializers that may be overridden after the others; `null` where they are the first ones. */
  readonly inputs: readonly number[] | null
  /** Places among all outputs. */
  readonly served: readonly number[]
  /** How many outputs there are. */
  readonly count: number
}

const noPlaces: Places = { inputs: null, served: [], count: 0 }

/** What a loop says of a session that it has opened. */
interface OpenedDetails extends NativeCompletionDetails {
  readonly inputs: RawValueMetadata[]
  readonly neededInputs: number
  readonly outputs: RawValueMetadata[]
  readonly session: number
}

/** A thread that gives way to others by more is not waited for: on a busy machine it would be for a quarter of a second. */
const mostNiceIncrementOfHalves = 5

/**
 * A thread of the addon's, which calls ONNX Runtime without any JavaScript, and the way to it. It needs no isolate of Node's: one takes
 * 50 ms and 7 MB.
 */
export class NativeExecutor implements Executor, WorkerThread, LoopOwner {
  readonly executor = this
  readonly #events: ExecutorEvents
  readonly #hub: CompletionHub
  readonly #loop: NativeRunLoop
  readonly #niceIncrement: number
  readonly runsHalves: boolean
  readonly #questions = new Map<number, Question>()
  readonly #sessions = new Map<number, Places>()
  readonly #sessionOfSlot = new Map<number, number>()
  readonly #ended: Promise<void>
  #onEnded!: () => void
  #lastQuestion = 0
  /** Whether nothing can be asked of it any more. */
  #gone = false

  constructor(ort: NativeOrt & { readonly binding: object }, events: ExecutorEvents, niceIncrement = 0) {
    this.#events = events
    this.#niceIncrement = niceIncrement
    this.runsHalves = niceIncrement <= mostNiceIncrementOfHalves
    this.#hub = completionHub(ort.binding)
    this.#loop = this.#hub.newLoop(this)
    this.#ended = new Promise((resolve) => (this.#onEnded = resolve))
    void this.#ended.then(() => this.#close())
  }

  /** Rejects when the system has no thread left, or when it was ended before. */
  async start(): Promise<void> {
    try {
      if (!this.#loop.start(this.#niceIncrement)) throw new ThreadEndedError()
    } catch (error) {
      this.abandon()
      throw error
    }
  }

  /** Never resolves: a thread of the addon does not die. */
  failure(): Promise<string> {
    return new Promise(() => {})
  }

  detach(): Promise<void> {
    this.abandon()
    return this.#ended
  }

  end(): Promise<void> {
    return this.stop()
  }

  async open(
    sessionId: number,
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ): Promise<OpenedSession> {
    const settings = sessionSettings(options)
    const { details } = await this.#ask(sessionId, (questionId) => {
      const source = typeof model === 'string' ? model : new Uint8Array(model)
      this.#loop.open(
        questionId,
        sessionId,
        source,
        typeof model === 'string' ? 0 : bytesId(model),
        settings,
        sharable(options),
      )
    })
    if (details?.error != null) throw new Error(details.error)
    const { inputs: all, neededInputs, outputs, session } = details as OpenedDetails
    const { overridden = [] } = options
    const places = [...all.keys()].filter(
      (place) => place < neededInputs || overridden.includes(all[place]!.name),
    )
    const inputs = places.map((place) => all[place]!)
    this.#sessions.set(sessionId, {
      inputs: places.length > neededInputs ? places : null,
      served: servedPlaces(inputs, outputs),
      count: outputs.length,
    })
    return { inputs, outputs, carrier: libraryCarrier, ...(sharable(options) ? { shared: session } : {}) }
  }

  openAhead(model: string | SharedArrayBuffer, options: OpenOptions): OpeningAhead | null {
    return sharable(options)
      ? openAhead(this.#hub, this.#niceIncrement, model, sessionSettings(options))
      : null
  }

  async runSample(
    sessionId: number,
    feeds: readonly (MailedValue | null)[],
    wantsOutputs: boolean,
  ): Promise<SampleRun> {
    const { inputs, served } = this.#sessions.get(sessionId) ?? noPlaces
    const { runMs, details } = await this.#ask(sessionId, (questionId) =>
      this.#loop.runSample(questionId, sessionId, placed(feeds, inputs, null), served, wantsOutputs),
    )
    if (details?.error != null) return { error: details.error, runMs: 0, outputs: [] }
    const given = (details?.outputs ?? []) as MailedValue[]
    return { error: null, runMs, outputs: wantsOutputs ? served.map((place) => given[place]!) : [] }
  }

  async close(sessionId: number): Promise<void> {
    await this.#ask(sessionId, (questionId) => this.#loop.close(questionId, sessionId)).catch(() => {})
    this.#sessions.delete(sessionId)
  }

  defineSlot(slotId: number, sessionId: number, memory: SlotMemory): void {
    if (memory.kind !== 'native') throw new Error('a run loop sees native memory only')
    this.#sessionOfSlot.set(slotId, sessionId)
    this.#loop.defineSlot(slotId, sessionId, memory.leaseId)
  }

  forgetSlot(slotId: number): void {
    this.#sessionOfSlot.delete(slotId)
    this.#loop.forgetSlot(slotId)
  }

  defineLayout(slotId: number, layoutIndex: number, { inputs, outputs }: SlotLayout): void {
    const { inputs: own, served, count } = this.#placesOf(slotId)
    const places = Array.from({ length: count })
    for (const [index, place] of outputs.entries()) places[served[index]!] = place
    this.#loop.defineLayout(slotId, layoutIndex, placed(inputs, own, undefined), places)
  }

  submit(
    slotId: number,
    layoutIndex: number,
    mailed: readonly (MailedValue | null)[] | null,
    onSecond: boolean,
  ): void {
    if (mailed === null) this.#loop.submit(slotId, layoutIndex, onSecond)
    else this.#loop.submit(slotId, layoutIndex, onSecond, placed(mailed, this.#placesOf(slotId).inputs, null))
  }

  runHere(slotId: number, layoutIndex: number, onSecond: boolean, inHalves: boolean): boolean {
    if (this.#gone || !this.#loop.runHere(slotId, layoutIndex, onSecond, inHalves)) return false
    this.#hub.drain()
    return true
  }

  revoke(slotId: number): boolean {
    return this.#loop.takeBack(slotId)
  }

  cancel(slotId: number): boolean {
    return this.#loop.cancelBatch(slotId)
  }

  note(sessionId: number, key: string): string {
    return this.#loop.note(sessionId, key)
  }

  setNote(sessionId: number, key: string, value: string): void {
    this.#loop.setNote(sessionId, key, value)
  }

  async shrinkArena(sessionId: number): Promise<void> {
    const { details } = await this.#ask(sessionId, (questionId) =>
      this.#loop.shrinkArena(questionId, sessionId),
    )
    if (details?.error != null) throw new Error(details.error)
  }

  arena(sessionId: number): Arena | null {
    return this.#loop.arena(sessionId)
  }

  cancelWork(sessionId: number): boolean {
    let any = false
    for (const [questionId, question] of this.#questions) {
      if (question.sessionId === sessionId && this.#loop.cancelQuestion(questionId)) any = true
    }
    return any
  }

  drainCompletions(): void {
    this.#hub.drain()
  }

  exit(): Promise<void> {
    return this.#end(this.#loop.end())
  }

  abandon(): void {
    void this.stop()
    this.#lose()
  }

  stop(): Promise<void> {
    return this.#end(this.#loop.stop())
  }

  batchDone(slotId: number, times: Readonly<RunTimestamps>, details: NativeCompletionDetails | null): void {
    if (details === null || details.error !== null)
      return this.#events.finished(slotId, times, details?.error ?? null, null)
    const given = details.outputs as MailedOutputs
    const mailed = this.#placesOf(slotId).served.map((place) => given[place] ?? null)
    this.#events.finished(slotId, times, null, mailed)
  }

  answered(questionId: number, runMs: number, details: NativeCompletionDetails | null): void {
    const question = this.#questions.get(questionId)
    this.#questions.delete(questionId)
    question?.resolve({ runMs, details })
  }

  loopEnded(): void {
    this.#onEnded()
  }

  #placesOf(slotId: number): Places {
    return this.#sessions.get(this.#sessionOfSlot.get(slotId) ?? -1) ?? noPlaces
  }

  #end(hasEnded: boolean): Promise<void> {
    if (hasEnded) this.#onEnded()
    return this.#ended
  }

  #ask(sessionId: number, put: (questionId: number) => void): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#gone) return reject(new ThreadEndedError())
      const questionId = ++this.#lastQuestion
      put(questionId)
      this.#questions.set(questionId, { sessionId, resolve, reject })
    })
  }

  /** Rejects all questions, those that are open and those that come. */
  #lose(): void {
    this.#gone = true
    const questions = [...this.#questions.values()]
    this.#questions.clear()
    for (const { reject } of questions) reject(new ThreadEndedError())
  }

  #close(): void {
    try {
      this.#hub.drain() // what was finished before the end is still good; nothing comes after
    } finally {
      this.#lose()
      this.#hub.dropLoop(this.#loop)
      nextTurn(() => this.#loop.dispose()) // not before what had not started was revoked
    }
  }
}

/** The owner of a loop, which is notified of what that has done. */
export interface LoopOwner {
  /** A batch is done. `times` is reused. */
  batchDone(slotId: number, times: Readonly<RunTimestamps>, details: NativeCompletionDetails | null): void
  answered(questionId: number, runMs: number, details: NativeCompletionDetails | null): void
  /** The loop's thread has ended. */
  loopEnded(): void
}

/** Numbers of one completion, as `take` writes them. */
const numbers = 7
const taken = 64
const kinds = { batch: 0, answer: 1, ended: 2, batchHere: 3 } as const

/**
 * Brings what loops have done to their owners: one for the isolate, woken once for all that is done.
 *
 * Node.js calls a thread-safe function up to 1000 times before any timer or connection. Answers bring requests, which may be done
 * by the next of these calls. So after {@link stretchMs} of them the rest waits for the next turn of the event loop.
 */
export class CompletionHub {
  readonly #binding: NativeBinding
  readonly #native: NativeCompletionHub
  readonly #owners = new Map<number, LoopOwner>()
  readonly #numbers = new Float64Array(numbers * taken)
  /** The addon's clock minus `performance.now`. */
  readonly #offsetMs: number
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0, inline: false }
  readonly #nextFreeTurn = freeTurns()
  #draining = false
  #again = false
  /** When the event loop last had a turn that was asked for here. */
  #turnAtMs = -Infinity
  /** When the next turn was asked for; `Infinity` if it was not. */
  #awaitedSinceMs = Infinity

  constructor(binding: NativeBinding) {
    this.#binding = binding
    this.#native = new binding.CompletionHub(() => this.#onWake(), this.#numbers)
    this.#offsetMs = clockOffsetMs(binding)
  }

  /** A thread of the addon's whose owner is notified from now on, and which the exit of this process (or worker thread) stops. */
  newLoop(owner: LoopOwner): NativeRunLoop {
    const loop = new this.#binding.RunLoop(this.#native)
    this.#owners.set(loop.id, owner)
    stopAtExit(this.#binding, loop)
    return loop
  }

  /** The end of {@link newLoop}: the thread has ended. */
  dropLoop(loop: NativeRunLoop): void {
    this.#owners.delete(loop.id)
    noLongerStopAtExit(loop)
  }

  /** Reports all that is done; called by an owner that it notifies, it does nothing: the rest comes in turn. */
  drain(): void {
    this.#again = true
    if (this.#draining) return
    this.#draining = true
    const failures: unknown[] = []
    try {
      this.#takeAll(failures)
    } finally {
      this.#draining = false
    }
    if (failures.length > 0) throw failures[0]
  }

  #takeAll(failures: unknown[]): void {
    while (this.#again) {
      const count = this.#native.take()
      this.#again = count === taken
      for (let index = 0; index < count; index++) {
        try {
          this.#report(index * numbers)
        } catch (error) {
          failures.push(error) // the others must not go unheard for it
        }
      }
    }
  }

  #onWake(): void {
    const nowMs = systemClock.nowMs()
    if (nowMs - this.#awaitedSinceMs > stretchMs) return // the turn brings it; until something is taken, there is no further wake
    if (this.#awaitedSinceMs === Infinity && nowMs - this.#turnAtMs > stretchMs / 2) {
      this.#awaitedSinceMs = nowMs
      this.#nextFreeTurn(this.#onTurn)
    }
    this.#bring()
  }

  readonly #onTurn = (): void => {
    this.#awaitedSinceMs = Infinity
    this.#turnAtMs = systemClock.nowMs()
    this.#bring()
  }

  #bring(): void {
    try {
      this.drain()
    } catch (error) {
      // Out of a call from native code it would be lost.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  /** Outputs that JavaScript cannot hold, such as a string of more than it allows, make a failure of what gave them. */
  #takeDetails(): NativeCompletionDetails {
    try {
      return this.#native.takeDetails()
    } catch (error) {
      return { error: `its outputs cannot be held: ${(error as Error).message}`, outputs: [] }
    }
  }

  #report(at: number): void {
    const all = this.#numbers
    const kind = all[at + 1]!
    const id = all[at + 2]!
    const times = this.#times
    times.startMs = all[at + 3]! - this.#offsetMs
    times.inferStartMs = all[at + 4]! - this.#offsetMs
    times.inferEndMs = times.endMs = all[at + 5]! - this.#offsetMs
    const details = all[at + 6] === 1 ? this.#takeDetails() : null
    const owner = this.#owners.get(all[at]!)
    if (owner === undefined) return
    times.inline = kind === kinds.batchHere
    if (kind === kinds.batch || kind === kinds.batchHere) owner.batchDone(id, times, details)
    else if (kind === kinds.answer) owner.answered(id, times.endMs - times.startMs, details)
    else owner.loopEnded()
  }
}

const hubs = new WeakMap<NativeBinding, CompletionHub>()

/** The hub of this isolate. */
export function completionHub(binding: NativeBinding): CompletionHub {
  let hub = hubs.get(binding)
  if (hub === undefined) hubs.set(binding, (hub = new CompletionHub(binding)))
  return hub
}
