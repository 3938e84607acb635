import type { BatchReason } from '../options/batching.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { TensorData } from '../tensor/tensor.ts'
import type { MailedValue } from '../tensor/values.ts'

/** Where a batch is run. */
export interface BatchPlace {
  /** Of the instance. */
  readonly name: string
  readonly worker: { readonly name: string }
}

/** A batch on its way to an instance. */
export interface Batch {
  /** Its number among those that left the queue. */
  readonly formed: number
  /** Its number among those that were run; 0 while it is prefetched. */
  id: number
  readonly requests: readonly InferRequest[]
  /** When it left the queue. */
  readonly takenAtMs: number
  /** `null` until an instance has taken it. */
  place: BatchPlace | null
  readonly reason: BatchReason
  /** Whether nothing else may be on the worker meanwhile: a request of it may have killed one before. */
  readonly isExclusive: boolean
  /** Whether its requests have been run before, and some run of them has failed. */
  readonly isRerun: boolean
  /** Whether it is prefetched: it waits behind another batch, and can be revoked. */
  ahead: boolean
  /** Whether its run is stopped when it takes too long. */
  limited: boolean
  /**
   * What becomes of requests that still want an answer of a run that was told to stop: they are run again, all of them, in
   * halves, or each by itself. `null` while it was not.
   */
  rerun: 'all' | 'halves' | 'singly' | null
}

/** Times of a batch on its way, in milliseconds on the application thread's clock. */
export interface BatchTimeline {
  takenAtMs: number
  gatheredAtMs: number
  startMs: number
  inferStartMs: number
  inferEndMs: number
}

/** A finished batch. */
export interface FinishedBatch {
  readonly id: number
  /** Those of the batch, and what stood in slots of sequences that had none. */
  readonly requests: Batch['requests']
  readonly reason: Batch['reason']
  readonly isRerun: boolean
  readonly place: Batch['place']
  readonly rows: number
  readonly slot: RunSlot
  readonly timeline: Readonly<BatchTimeline>
  /** Whether it was run by the application's thread. */
  readonly inline: boolean
  /** Whether it had other threads than most batches of its model. Its time is then no measure for those. */
  readonly isUnusual: boolean
  /** The instance that ran it. */
  readonly instance: string
  /** Outputs that came by message, by output; `null` for what lies in the slot. */
  readonly mailed: MailedOutputs | null
  /** Rows that have no answer; `null` for none. */
  readonly failures: RowFailures | null
}

/** The slot of a finished batch, as far as answers are cut from it. */
export interface RunSlot {
  /** Rows that belong to no request: empty places of sequences. */
  readonly emptyRows: number
  readonly layout: RunLayout | null
}

/** How a finished batch lies in its slot, and this thread's views of its outputs. */
export interface RunLayout {
  /** By input; `null` or `undefined` for one that does not lie in the slot. */
  readonly inputDims: readonly (readonly number[] | null | undefined)[]
  /** By output; `null` for one that came by message, `undefined` for one that no request asked for. */
  readonly outputs: readonly ({ readonly dims: readonly number[] } | null | undefined)[]
  readonly outputViews: readonly (TensorData | null | undefined)[]
  /** Elements of one row of each output; for a request that runs as it is, of the whole. */
  readonly outputRowElements: readonly number[]
  /** How often a row of each output begins anew: once where rows lie one behind the other. */
  readonly outputBlocks: readonly number[]
  /** Which dimension of each output counts rows. */
  readonly outputAxes: readonly number[]
  /** Whether elements of some input or output share bytes. */
  readonly packs: boolean
  /** The lengths to which the batch is padded, by entry of the model's padding; `null` without padding. */
  readonly lengths: readonly number[] | null
}

/** Outputs that left a run by message, by output; `null` for what lies in the slot, `undefined` for one that no request asked for. */
export type MailedOutputs = readonly (MailedValue | null | undefined)[]

/** Rows of a batch that failed although it was run, with the message of each. */
export type RowFailures = readonly (readonly [row: number, message: string])[]

/** The requests of a batch, each in the slot of its sequence and what stands for an empty one in the others; as they are where sequences have none. */
export function inSlots(requests: readonly InferRequest[]): readonly InferRequest[] {
  const { turn } = requests[0]!
  if (turn!.slot === -1) return requests
  const last = requests.reduce((slot, request) => Math.max(slot, request.turn!.slot), 0)
  const batch: InferRequest[] = Array.from({ length: Math.max(last + 1, turn!.slots) })
  for (const request of requests) batch[request.turn!.slot] = request
  for (let slot = 0; slot < batch.length; slot++) batch[slot] ??= turn!.emptyRow()
  return batch
}
