import type { OpenOptions } from '../../../options/session-options.ts'
import type { RawValueMetadata } from '../../../tensor/metadata.ts'
import type { RunTimestamps, SampleRun, SlotLayout } from '../executor.ts'
import type { RowFailures } from '../../../schedule/batch.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import type { ProofAnswer, ProofTask } from '../thread-start.ts'

/**
 * Everything the application's thread and a worker say to each other. Per batch they exchange two small integers
 * through shared memory ({@link ControlBlock}); whatever is rare travels as a message on the worker's port,
 * and the sender then rings the same bell. A worker reads its mail before it runs a batch, so a message that describes a
 * slot or a layout is always known before the batch that needs it.
 */

/** Messages to a worker. Those with a `questionId` are answered, by the same or by `refused`. */
export type ToWorker =
  | {
      type: 'open'
      questionId: number
      sessionId: number
      model: string | SharedArrayBuffer
      options: OpenOptions
    }
  | {
      type: 'runSample'
      questionId: number
      sessionId: number
      feeds: readonly (MailedValue | null)[]
      wantsOutputs: boolean
    }
  | ProofTask
  | { type: 'close'; questionId: number; sessionId: number }
  /** `copied`: ONNX Runtime cannot read the buffer itself. */
  | { type: 'slot'; slotId: number; sessionId: number; buffer: SharedArrayBuffer; copied: boolean }
  /** The slot's memory is given back; nothing will be submitted there before a new `slot` message. */
  | { type: 'forget'; slotId: number }
  | { type: 'layout'; slotId: number; layoutIndex: number; layout: SlotLayout }
  /** The inputs of the next batch of a slot that do not lie in it. */
  | { type: 'inputs'; slotId: number; mailed: readonly (MailedValue | null)[] }
  /** Nobody wants what a batch will give, by its number; of functions only. */
  | { type: 'unwanted'; batch: number }
  | { type: 'exit' }

/** Messages from a worker. */
export type FromWorker =
  | { type: 'opened'; questionId: number; inputs: RawValueMetadata[]; outputs: RawValueMetadata[] }
  | ({ type: 'ranSample'; questionId: number } & SampleRun)
  | ProofAnswer
  | { type: 'closed'; questionId: number }
  /** What was asked for could not be done. */
  | { type: 'refused'; questionId: number; message: string }
  /** A batch that failed, or some of whose outputs travel by message. */
  | {
      type: 'done'
      slotId: number
      times: RunTimestamps
      error: string | null
      outputs: (MailedValue | null | undefined)[]
      failures?: RowFailures | null
    }

/** `process.hrtime` minus `performance.now` in this isolate: puts times of two threads on one scale. */
export function clockOffsetMs(): number {
  return Number(process.hrtime.bigint()) / 1e6 - performance.now()
}
