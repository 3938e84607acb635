import type { MailedOutputs, RowFailures } from './executors/executor.ts'
import type { Batch } from './batch.ts'
import type { StagingSlot } from './staging-slot.ts'

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
  readonly slot: StagingSlot
  readonly timeline: Readonly<BatchTimeline>
  /** Whether it was run by the application's thread. */
  readonly inline: boolean
  /** The instance that ran it. */
  readonly instance: string
  /** Outputs that came by message, by output; `null` for what lies in the slot. */
  readonly mailed: MailedOutputs | null
  /** Rows that have no answer; `null` for none. */
  readonly failures: RowFailures | null
}
