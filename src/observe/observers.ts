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
    return requestChannel.hasSubscribers || batchChannel.hasSubscribers ? this.#withChannels : this.#observer
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
  if (all.length < 2) return all[0] ?? null
  return {
    begun: (model, facts) => together(all.flatMap((observer) => observer.begun(model, facts) ?? [])),
    batchBegan(batch) {
      for (const observer of all) observer.batchBegan?.(batch)
    },
    batchEnded(batch) {
      for (const observer of all) observer.batchEnded?.(batch)
    },
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
    for (const observation of this.#all) observation.passed?.(begunAtMs, doneAtMs)
  }

  ended(succeeded: boolean, reason: unknown, answer: unknown): void {
    for (const observation of this.#all) observation.ended(succeeded, reason, answer)
  }
}

function together(all: readonly RequestObservation[]): RequestObservation | null {
  return all.length > 1 ? new SeveralObservations(all) : (all[0] ?? null)
}

/** A message of the channel `zerohop:request`: a request was made or settled. Times are those of `performance.now()`. */
export interface RequestMessage {
  /** `begun`: the request was made. `ended`: it was settled. */
  readonly type: 'begun' | 'ended'
  /** The same in all messages about one request. */
  readonly id: number
  /** The `id` of the pipeline's request that this one is a step of; `null` for a caller's own request. */
  readonly parentId: number | null
  /** The name of the model. */
  readonly model: string
  /** The model's version. */
  readonly version: number
  /** Rows of the request, its batch dimension. */
  readonly rows: number
  /** The `requestId` that the caller gave. */
  readonly requestId?: string | undefined
  /** When the request was made or settled. */
  readonly atMs: number
  /** With `ended`: whether the request was answered. */
  readonly succeeded?: boolean
  /** With `ended`: why the request was not answered; `undefined` if its caller withdrew it. */
  readonly error?: unknown
  /** With `ended`: the `id` of each {@link BatchMessage} of a run that the request was part of, in their order. */
  readonly batchIds?: readonly number[]
}

/** A message of the channel `zerohop:batch`: a batch begins, or has run or failed. */
export interface BatchMessage extends Omit<ObservedBatch, 'model'> {
  /** `began`: the batch is about to run. `ended`: it has run or failed. */
  readonly type: 'began' | 'ended'
  /** The name of the model. */
  readonly model: string
  /** The model's version. */
  readonly version: number
}

const requestChannel = ownChannel('zerohop:request')
const batchChannel = ownChannel('zerohop:batch')
let lastId = 0

/** Notifies the subscribers of Node's diagnostics channels. An error that a subscriber throws becomes an uncaught exception of the process and does not reach the engine. */
const channelObserver: RequestObserver = {
  begun: (model, facts) => observed(model, facts, null),
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

function observed(
  { name, version }: ObservedModel,
  { rows, options: { requestId }, atMs }: RequestFacts,
  parentId: number | null,
): RequestObservation {
  const about = { id: ++lastId, parentId, model: name, version, rows, requestId }
  const batchIds: number[] = []
  if (requestChannel.hasSubscribers)
    requestChannel.publish({ ...about, type: 'begun', atMs } satisfies RequestMessage)
  return {
    child: (model, facts) => observed(model, facts, about.id),
    ran: ({ batch }) => void batchIds.push(batch.id),
    shared: ({ batchId }) => void batchIds.push(batchId),
    ended: (succeeded, error) => {
      if (!requestChannel.hasSubscribers) return
      const atEndMs = performance.now()
      const message: RequestMessage = { ...about, type: 'ended', atMs: atEndMs, succeeded, batchIds }
      requestChannel.publish(succeeded ? message : { ...message, error })
    },
  }
}
