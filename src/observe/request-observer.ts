import { runScope } from '../base/async-context.ts'
import type { BatchLimits, BatchReason, LevelOptions } from '../options/batching.ts'
import type { ValueMetadata } from '../tensor/metadata.ts'
import { ownChannel } from './engine-events.ts'

/** One version of a name, which serves requests; the same object for all of them. */
export interface ObservedModel {
  readonly name: string
  readonly version: number
  /** As its requests have them, the batch dimension included. */
  readonly metadata: { readonly inputs: readonly ValueMetadata[]; readonly outputs: readonly ValueMetadata[] }
  /** How its requests become batches; `null` for a pipeline, which has none of its own. */
  readonly batching: ObservedBatching | null
}

/** How the requests of a model become batches, as it was loaded. */
export interface ObservedBatching {
  readonly limits: BatchLimits
  readonly levels: LevelOptions
  /** 0 for none. */
  readonly latencyTargetMs: number
  readonly instances: number
}

/** A request as it was made. */
export interface RequestFacts {
  /** When, in milliseconds on the engine's clock. */
  readonly atMs: number
  readonly rows: number
  readonly requestId: string | undefined
  /** What its caller asked for; `undefined` for what was left out. */
  readonly priority: number | undefined
  readonly timeoutMs: number | undefined
  readonly deadlineMs: number | undefined
  readonly sequenceId: number | bigint | string | undefined
  /** Whether its answer is `{ outputs, report }`, and not the outputs alone. */
  readonly reported: boolean
  /** By input of the model; `null` for one that was left out, or is an encoded image: see {@link RequestObservation}. The caller's own memory: to be read at once, and kept as a copy only. */
  readonly data: readonly unknown[]
  /** Dims by input; `null` where the model fixes all but the rows. */
  readonly dims: readonly (readonly number[])[] | null
}

/** When a batch came how far, in milliseconds on the engine's clock, in the order of the way. */
export interface BatchMoments {
  /** It was closed, and gathering its rows began. */
  readonly takenAtMs: number
  /** Its rows lay together. */
  readonly gatheredAtMs: number
  /** Its worker began with it. */
  readonly startMs: number
  /** ONNX Runtime's run, or the function's. */
  readonly inferStartMs: number
  /** That was over. */
  readonly inferEndMs: number
  /** The application's thread took its outputs. */
  readonly scatterAtMs: number
  /** Its callers had been answered. */
  readonly doneAtMs: number
}

/** A batch that has run, or was to. */
export interface ObservedBatch {
  readonly model: ObservedModel
  /** Its number among the model's runs. */
  readonly id: number
  /** Of all its requests. */
  readonly rows: number
  /** Of callers and of steps. */
  readonly requestCount: number
  /** Why it was closed. */
  readonly reason: BatchReason
  /** Whether some of its requests had been run before. */
  readonly isRerun: boolean
  /** The instance that it ran on, and its worker; `''` until that is known. */
  readonly instance: string
  /** The worker's name; `''` until that is known. */
  readonly worker: string
  /** Whether the application's thread ran it. */
  readonly inline: boolean
  /** `null` until it has run, and where it failed. */
  readonly moments: BatchMoments | null
  /** Why it failed; `null` for one that did not. Its requests may be run again. */
  readonly error: string | null
}

/** A request's part in a batch. */
export interface ObservedRun {
  readonly batch: ObservedBatch
  /** Its first row there. */
  readonly position: number
  readonly rows: number
  /** When it came into the queue, and when by the statistics it had waited. */
  readonly queuedAtMs: number
  readonly begunAtMs: number
  /** By the statistics, in milliseconds: gathering, the run, and handing out its outputs. */
  readonly times: { readonly inputMs: number; readonly inferMs: number; readonly outputMs: number }
  /** Which part of a request that was split; `null` for a whole one. */
  readonly part: number | null
  /** Whether its end is that of the request: there are no other parts, callers or turns to be waited for. */
  readonly isLast: boolean
}

/** An answer that another request's run has given. */
export interface SharedAnswer {
  /** `cached`: it was kept; `coalesced`: the run was in flight. */
  readonly how: 'cached' | 'coalesced'
  /** The run's number. */
  readonly batchId: number
  /** When by the statistics the request had waited for it. */
  readonly begunAtMs: number
  readonly doneAtMs: number
}

/** Follows one request. What it throws is a failure of the engine: it has to catch what it does not control. */
export interface RequestObservation {
  /** A request is made on its behalf, as by a pipeline. Returns the observation of that; `null` for none. */
  child(model: ObservedModel, facts: RequestFacts): RequestObservation | null
  /** Inputs of it are there that were encoded images, by index: to be read at once, and kept as a copy only. */
  decoded?(data: ReadonlyMap<number, unknown>): void
  /** A batch that it was part of has run, or failed. Comes before the answer, and again for each part and each rerun. */
  ran(run: ObservedRun): void
  /** Instead of that: its answer is that of another. */
  shared(answer: SharedAnswer): void
  /** Of a pipeline's: its first steps could begin at `begunAtMs`, and it was over at `doneAtMs`. */
  passed(begunAtMs: number, doneAtMs: number): void
  /**
   * It is settled; called once, whether it was answered, failed, was refused or withdrawn.
   *
   * @param answer what its caller gets, which nobody has changed yet; `null` unless it succeeded.
   */
  ended(succeeded: boolean, reason: unknown, answer: unknown): void
}

/** Observes what an engine does: traces, recordings, spans and the like. Without observers a request costs one comparison; see {@link Observers}. */
export interface RequestObserver {
  /** A caller has made a request. Returns its observation; `null` when the observer does not follow this request. */
  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null
  /** A batch is about to run. */
  batchBegan(batch: ObservedBatch): void
  /** It has run, or failed: the observations of its requests were notified, and the requests are answered next. */
  batchEnded(batch: ObservedBatch): void
}

/** A request that a function runs for, as observers know it. */
export class Asker {
  readonly by: Observers
  /** `null` for a request that is not observed. */
  readonly observation: RequestObservation | null

  constructor(by: Observers, observation: RequestObservation | null) {
    this.by = by
    this.observation = observation
  }
}

/** The observers of one engine. */
export class Observers {
  #all: readonly RequestObserver[] = []
  #observer: RequestObserver | null = null
  /** The same, with the subscribers of the process's channels. */
  #withChannels: RequestObserver = channelObserver

  /** All of them as one; `null` while there is none. A request asks nothing else. */
  get observer(): RequestObserver | null {
    return channelsAreHeard() ? this.#withChannels : this.#observer
  }

  /** The observation of the request for which a function makes one now: `null` when that is not observed, `undefined` for a request of a caller. */
  get parent(): RequestObservation | null | undefined {
    const scope = runScope.getStore()
    if (scope === undefined || scope.isOver || !(scope.asker instanceof Asker) || scope.asker.by !== this)
      return undefined
    return scope.asker.observation
  }

  add(observer: RequestObserver): void {
    if (!this.#all.includes(observer)) this.#become([...this.#all, observer])
  }

  /** The observer gets no further requests; of those it has begun it gets the end. */
  remove(observer: RequestObserver): void {
    this.#become(this.#all.filter((other) => other !== observer))
  }

  #become(all: readonly RequestObserver[]): void {
    this.#all = all
    this.#observer = asOne(all)
    this.#withChannels = asOne([...all, channelObserver])!
  }
}

function asOne(all: readonly RequestObserver[]): RequestObserver | null {
  return all.length > 1 ? new SeveralObservers(all) : (all[0] ?? null)
}

class SeveralObservers implements RequestObserver {
  readonly #all: readonly RequestObserver[]

  constructor(all: readonly RequestObserver[]) {
    this.#all = all
  }

  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    return together(this.#all.flatMap((observer) => observer.begun(model, facts) ?? []))
  }

  batchBegan(batch: ObservedBatch): void {
    for (const observer of this.#all) observer.batchBegan(batch)
  }

  batchEnded(batch: ObservedBatch): void {
    for (const observer of this.#all) observer.batchEnded(batch)
  }
}

class SeveralObservations implements RequestObservation {
  readonly #all: readonly RequestObservation[]

  constructor(all: readonly RequestObservation[]) {
    this.#all = all
  }

  child(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    return together(this.#all.flatMap((observation) => observation.child(model, facts) ?? []))
  }

  decoded(data: ReadonlyMap<number, unknown>): void {
    for (const observation of this.#all) observation.decoded?.(data)
  }

  ran(run: ObservedRun): void {
    for (const observation of this.#all) observation.ran(run)
  }

  shared(answer: SharedAnswer): void {
    for (const observation of this.#all) observation.shared(answer)
  }

  passed(begunAtMs: number, doneAtMs: number): void {
    for (const observation of this.#all) observation.passed(begunAtMs, doneAtMs)
  }

  ended(succeeded: boolean, reason: unknown, answer: unknown): void {
    for (const observation of this.#all) observation.ended(succeeded, reason, answer)
  }
}

function together(all: readonly RequestObservation[]): RequestObservation | null {
  return all.length > 1 ? new SeveralObservations(all) : (all[0] ?? null)
}

/** A request, as the channel `zerohop:request` tells of it: when it is made, and when it is settled. Times are of `performance.now()`. */
export interface RequestMessage {
  /** When it is made, or when it is settled. */
  readonly type: 'begun' | 'ended'
  /** The same for all that is told of one request. */
  readonly id: number
  /** Of what it is run for, a request to a pipeline, say; `null` for one of a caller. */
  readonly parentId: number | null
  /** The name of the model. */
  readonly model: string
  /** The version of it that is asked. */
  readonly version: number
  /** Of its batch dimension. */
  readonly rows: number
  /** What its caller has named it. */
  readonly requestId?: string | undefined
  /** When that was. */
  readonly atMs: number
  /** Of `ended`: whether it was answered ... */
  readonly succeeded?: boolean
  /** ... and why not; `undefined` where its caller has withdrawn it. */
  readonly error?: unknown
  /** Of `ended`: what it was run in, in that order; by number, as `id` of a {@link BatchMessage}. */
  readonly batchIds?: readonly number[]
}

/** A batch, as the channel `zerohop:batch` tells of it: when it begins, and when it has run or failed. */
export interface BatchMessage extends Omit<ObservedBatch, 'model'> {
  /** When it begins, or when it has run or failed. */
  readonly type: 'began' | 'ended'
  /** The name of the model. */
  readonly model: string
  /** The version of it that is asked. */
  readonly version: number
}

const requestChannel = ownChannel('zerohop:request')
const batchChannel = ownChannel('zerohop:batch')
let lastId = 0

/** Whether one of the two channels has a subscriber. */
function channelsAreHeard(): boolean {
  return requestChannel.hasSubscribers || batchChannel.hasSubscribers
}

/** Notifies the subscribers of Node's diagnostics channels. What a subscriber throws is an uncaught exception; the engine does not notice. */
const channelObserver: RequestObserver = {
  begun: (model, facts) => new ChannelObservation(model, facts, null),
  batchBegan: (batch) => publishBatch('began', batch),
  batchEnded: (batch) => publishBatch('ended', batch),
}

function publishBatch(
  type: BatchMessage['type'],
  { model: { name, version }, ...batch }: ObservedBatch,
): void {
  if (batchChannel.hasSubscribers)
    batchChannel.publish({ type, model: name, version, ...batch } satisfies BatchMessage)
}

class ChannelObservation implements RequestObservation {
  readonly #message: Omit<RequestMessage, 'type' | 'atMs'>
  readonly #batchIds: number[] = []

  constructor(
    { name, version }: ObservedModel,
    { rows, requestId, atMs }: RequestFacts,
    parentId: number | null,
  ) {
    this.#message = { id: ++lastId, parentId, model: name, version, rows, requestId }
    if (requestChannel.hasSubscribers)
      requestChannel.publish({ ...this.#message, type: 'begun', atMs } satisfies RequestMessage)
  }

  child(model: ObservedModel, facts: RequestFacts): RequestObservation {
    return new ChannelObservation(model, facts, this.#message.id)
  }

  ran({ batch: { id } }: ObservedRun): void {
    this.#batchIds.push(id)
  }

  shared({ batchId }: SharedAnswer): void {
    this.#batchIds.push(batchId)
  }

  passed(): void {}

  ended(succeeded: boolean, error: unknown): void {
    if (!requestChannel.hasSubscribers) return
    const message: RequestMessage = {
      ...this.#message,
      type: 'ended',
      atMs: performance.now(),
      succeeded,
      batchIds: this.#batchIds,
    }
    requestChannel.publish(succeeded ? message : { ...message, error })
  }
}
