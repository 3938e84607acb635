import type { BatchReason } from '../options/batching.ts'
import type { InferRequest } from '../request/infer-request.ts'

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
  /** Its number among those that were run; 0 while it is ahead. */
  id: number
  readonly requests: readonly InferRequest[]
  /** `null` until an instance has taken it. */
  place: BatchPlace | null
  readonly reason: BatchReason
  /** Whether nothing else may be on the worker meanwhile: a request of it may have killed one before. */
  readonly alone: boolean
  /** Whether its requests have been run before, and some run of them has failed. */
  readonly isRerun: boolean
  /** Whether it waits behind another one still: it can be taken back. */
  ahead: boolean
  /** Whether its run is stopped when it takes too long. */
  limited: boolean
  /**
   * What becomes of requests that still want an answer of a run that was told to stop: they are run again, all of them, in
   * halves, or each by itself. `null` while it was not.
   */
  rerun: 'all' | 'halves' | 'singly' | null
}
