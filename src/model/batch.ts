import type { BatchReason } from '../scheduling.ts'
import type { MailedTensor } from '../pool/protocol.ts'
import type { InferRequest } from './request.ts'
import type { StagingSlot } from './staging-slot.ts'

/** A batch on its way to an instance. */
export interface Batch {
  readonly id: number
  readonly requests: readonly InferRequest[]
  readonly reason: BatchReason
  /** Whether nothing else may be on the worker meanwhile: a request of it may have killed one before. */
  readonly alone: boolean
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
export interface FinishedBatch extends Batch {
  readonly rows: number
  readonly slot: StagingSlot
  readonly timeline: Readonly<BatchTimeline>
  /** The instance that ran it. */
  readonly instance: string
  /** Outputs that came by message, by output; `null` for what lies in the slot. */
  readonly mailed: readonly (MailedTensor | null | undefined)[] | null
}
