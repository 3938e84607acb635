import type { BatchLimits, BatchReason, LevelOptions } from '../options/batching.ts'
import type { CheckedOptions } from '../options/infer-options.ts'
import type { ValueMetadata } from '../tensor/metadata.ts'
import { ownChannel } from './engine-events.ts'

/** A version of a model that serves requests; the same object for all of its requests. */
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
  /** What its caller asked for. */
  readonly options: CheckedOptions
  /**
   * Data by input of the model; `null` for one that was left out, and for an encoded image: see {@link RequestObservation}.
   * It is the caller's own memory: read it at once, and keep only a copy.
   */
  readonly data: readonly unknown[]
  /** Dims by input; `null` where the model fixes all but the rows. */
  readonly dims: readonly (readonly number[])[] | null
}

/** When a batch reached each stage, in milliseconds on the engine's clock, in their order. */
export interface BatchMoments {
  /** It was closed, and gathering its rows began. */
  readonly takenAtMs: number
  /** Its rows lay together. */
  readonly gatheredAtMs: number
  /** Its worker started it. */
  readonly startMs: number
  /** The run of ONNX Runtime, or of the function, began. */
  readonly inferStartMs: number
  /** That run ended. */
  readonly inferEndMs: number
  /** The application's thread began to scatter its outputs. */
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
  /** When it entered the queue, and when its wait ended by the statistics. */
  readonly queuedAtMs: number
  readonly begunAtMs: number
  /** By the statistics, in milliseconds: gathering, the run, and scattering its outputs. */
  readonly times: { readonly inputMs: number; readonly inferMs: number; readonly outputMs: number }
  /** Which part of a request that was split; `null` for a whole one. */
  readonly part: number | null
  /** Whether its end is that of the request, which waits for no other parts, callers or turns. */
  readonly isLast: boolean
}

/** An answer from another request's run. */
export interface SharedAnswer {
  /** `cached`: it was kept; `coalesced`: the run was in flight. */
  readonly how: 'cached' | 'coalesced'
  /** The run's number. */
  readonly batchId: number
  /** When the request's wait for it ended, by the statistics. */
  readonly begunAtMs: number
  readonly doneAtMs: number
}

/** Follows one request. An exception from it is a failure of the engine: it has to catch the errors of code that it calls. */
export interface RequestObservation {
  /** A request is made on its behalf, as by a pipeline. Returns the observation of that; `null` for none. */
  child(model: ObservedModel, facts: RequestFacts): RequestObservation | null
  /** Its encoded images are decoded: their tensors by index of the input. Read them at once, and keep only copies. */
  decoded?(data: ReadonlyMap<number, unknown>): void
  /** A batch that it was part of has run, or failed. Comes before the answer, and again for each part and each rerun. */
  ran(run: ObservedRun): void
  /** Instead of {@link ran}: another request's run has answered it. */
  shared(answer: SharedAnswer): void
  /** Of a pipeline's request: its first steps could begin at `begunAtMs`, and its last ended at `doneAtMs`. */
  passed?(begunAtMs: number, doneAtMs: number): void
  /**
   * It is settled; called once, whether it was answered, failed, was refused or withdrawn.
   *
   * @param answer what its caller gets, still unchanged; `null` unless it succeeded.
   */
  ended(succeeded: boolean, reason: unknown, answer: unknown): void
}

/** Observes what an engine does: traces, recordings, spans and the like. Without observers a request costs one comparison; see {@link Observers}. */
export interface RequestObserver {
  /** A caller has made a request. Returns its observation; `null` when the observer does not follow this request. */
  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null
  /** A batch is about to run. */
  batchBegan?(batch: ObservedBatch): void
  /** It has run, or failed: the observations of its requests were notified, and the requests are answered next. */
  batchEnded?(batch: ObservedBatch): void
}

/**
 * A message of the channel `zerohop:request`: a request was made or settled. Times are those of `performance.now()`. A field of a
 * request is here only if `observed` copies it from {@link RequestFacts}.
 */
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
    ended: (succeeded, error) => {
      if (!requestChannel.hasSubscribers) return
      const atEndMs = performance.now()
      const message: RequestMessage = { ...about, type: 'ended', atMs: atEndMs, succeeded, batchIds }
      requestChannel.publish(succeeded ? message : { ...message, error })
    },
  }
}
