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

export const requestChannel = ownChannel('zerohop:request')
export const batchChannel = ownChannel('zerohop:batch')
let lastId = 0

/** Notifies the subscribers of Node's diagnostics channels. An error that a subscriber throws becomes an uncaught exception of the process and does not reach the engine. */
export const channelObserver: RequestObserver = {
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
    { rows, options: { requestId }, atMs }: RequestFacts,
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
