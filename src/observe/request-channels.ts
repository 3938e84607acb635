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

export const requestChannel = ownChannel('zerohop:request')
export const batchChannel = ownChannel('zerohop:batch')
let lastId = 0

/** Notifies the subscribers of Node's diagnostics channels. What a subscriber throws is an uncaught exception; the engine does not notice. */
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
