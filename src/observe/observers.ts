import { runScope } from '../base/async-context.ts'
import { ownChannel } from './engine-events.ts'
import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  RequestObserver,
  SharedAnswer,
} from './request-observer.ts'

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

/** A message of the channel `zerohop:request`: a request was made, or settled. Times are of `performance.now()`. */
export interface RequestMessage {
  /** When it is made, or when it is settled. */
  readonly type: 'begun' | 'ended'
  /** The same in all messages about one request. */
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

/** A message of the channel `zerohop:batch`: a batch begins, or has run or failed. */
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
