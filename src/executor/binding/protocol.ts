import type { MessagePort } from 'node:worker_threads'
import type { InferenceSession } from 'onnxruntime-common'
import type { RawValueMetadata } from '../../metadata.ts'
import type { SlotMemory } from '../../memory/staging-pool.ts'
import type { RunTimestamps, SlotLayout } from '../executor.ts'
import type { MailedTensor } from '../../tensor.ts'

/**
 * Everything the application's thread and a worker say to each other. Per batch they exchange two small integers
 * through rings in shared memory ({@link ControlBlock}); whatever is rare travels as a message on the worker's port,
 * and the sender then rings the same bell. A worker reads its mail before its ring, so a message that describes a
 * slot or a layout is always known before the batch that needs it.
 */

/** Messages to a worker. */
export type ToWorker =
  | { type: 'open'; sessionId: number; path: string; options: InferenceSession.SessionOptions }
  | { type: 'warmup'; sessionId: number; feeds: readonly (MailedTensor | null)[]; count: number; replyId: number }
  | { type: 'close'; sessionId: number }
  | { type: 'slot'; slotId: number; sessionId: number; memory: SlotMemory }
  /** The slot's memory is given back; nothing will be submitted there before a new `slot` message. */
  | { type: 'forget'; slotId: number }
  | { type: 'layout'; slotId: number; layoutIndex: number; layout: SlotLayout }
  | { type: 'run'; slotId: number; layoutIndex: number; mailed: readonly (MailedTensor | null)[] | null }
  | { type: 'exit' }

/** Messages from a worker. */
export type FromWorker =
  | { type: 'opened'; sessionId: number; inputs: RawValueMetadata[]; outputs: RawValueMetadata[] }
  | { type: 'openFailed'; sessionId: number; message: string }
  /** `runMs`: what each run took. */
  | { type: 'warmedUp'; replyId: number; error: string | null; runMs: number[] }
  | { type: 'closed'; sessionId: number }
  /** A batch that failed, or some of whose outputs travel by message. */
  | { type: 'done'; slotId: number; times: RunTimestamps; error: string | null; outputs: (MailedTensor | null | undefined)[] }

/** What a worker's init task is given. */
export interface WorkerSetup {
  port: MessagePort
  control: SharedArrayBuffer
  bell: SharedArrayBuffer
  /** `process.hrtime` minus `performance.now` on the application's thread, in milliseconds. */
  clockOffsetMs: number
}

/** What the init task answers. */
export interface WorkerReady {
  onnxruntimeVersion: string
  /** Whether ONNX Runtime reads views of a SharedArrayBuffer here. */
  acceptsSharedMemory: boolean
}

/** `process.hrtime` minus `performance.now` in this isolate: puts times of two threads on one scale. */
export function clockOffsetMs(): number {
  return Number(process.hrtime.bigint()) / 1e6 - performance.now()
}
