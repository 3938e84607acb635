import type { BatchReason } from '../config/batching.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** A batch on its way to an instance. */
export interface Batch {
  readonly id: number
  readonly requests: readonly InferRequest[]
  readonly reason: BatchReason
  /** Whether nothing else may be on the worker meanwhile: a request of it may have killed one before. */
  readonly alone: boolean
}
