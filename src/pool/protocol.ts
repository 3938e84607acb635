import type { MessagePort } from 'node:worker_threads'
import type { InferenceSession } from 'onnxruntime-common'
import type { RawValueMetadata } from '../model/metadata.ts'
import type { TensorType } from '../tensor.ts'

/**
 * Everything the application's thread and a worker say to each other. Per batch they exchange two small integers
 * through rings in shared memory ({@link ControlBlock}); whatever is rare travels as a message on the worker's port,
 * and the sender then rings the same bell. A worker reads its mail before its ring, so a message that describes a
 * slot or a layout is always known before the batch that needs it.
 */

/** Where the bytes of a staging slot are, in a form that can be posted to a worker. */
export type SlotMemory =
  /** Memory of the native addon; each isolate makes its own view of the lease. */
  | { readonly kind: 'native'; readonly leaseId: number; readonly byteLength: number }
  /** Shared memory; `copy` when ONNX Runtime refuses views of it, so that the worker stages through private memory. */
  | { readonly kind: 'shared'; readonly buffer: SharedArrayBuffer; readonly copy: boolean; readonly byteLength: number }

/** A tensor's place in a slot. */
export interface TensorPlace {
  readonly offset: number
  readonly dims: readonly number[]
}

/** How one batch lies in its slot. */
export interface SlotLayout {
  /** `null`: the input travels by message (strings). `undefined`: an optional one that is not given. */
  readonly inputs: readonly (TensorPlace | null | undefined)[]
  /** `null`: the size is known only after the run, the output travels by message. `undefined`: not wanted. */
  readonly outputs: readonly (TensorPlace | null | undefined)[]
}

/** An input or output that travels by message. */
export interface MailedTensor {
  readonly type: TensorType
  readonly dims: readonly number[]
  /** Strings, or the raw bytes of the elements. */
  readonly data: readonly string[] | ArrayBuffer
}

/** What one run took, in milliseconds on the application thread's clock. */
export interface RunTimestamps {
  startMs: number
  inferStartMs: number
  inferEndMs: number
  endMs: number
}

/** Messages to a worker. */
export type ToWorker =
  | { type: 'open'; sessionId: number; path: string; options: InferenceSession.SessionOptions }
  | { type: 'warmup'; sessionId: number; feeds: readonly (MailedTensor | null)[]; count: number; replyId: number }
  | { type: 'close'; sessionId: number }
  | { type: 'slot'; slotId: number; sessionId: number; memory: SlotMemory }
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
