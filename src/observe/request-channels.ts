import { ownChannel } from './engine-events.ts'
import type {
  ObservedBatch,
  ObservedModel,
  RequestFacts,
  RequestObservation,
  RequestObserver,
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
    passed: () => {},
    ended: (succeeded, error) => {
      if (!requestChannel.hasSubscribers) return
      const atEndMs = performance.now()
      const message: RequestMessage = { ...about, type: 'ended', atMs: atEndMs, succeeded, batchIds }
      requestChannel.publish(succeeded ? message : { ...message, error })
    },
  }
}
