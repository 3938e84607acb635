import type { OpenOptions } from '../../options/session-options.ts'
import type { RawValueMetadata } from '../../tensor/metadata.ts'
import type { RunTimestamps, SampleRun, SlotLayout, Executor } from './executor.ts'
import type { RowFailures } from '../../schedule/batch.ts'
import type { MailedValue } from '../../tensor/values.ts'
import type { MessagePort } from 'node:worker_threads'

/** What the init task of a thread is given, by the executor that it serves. Its port closes with the thread, however that ends. */
export type WorkerSetup =
  | {
      readonly kind: 'binding'
      readonly port: MessagePort
      readonly control: SharedArrayBuffer
      readonly bell: SharedArrayBuffer
      /** `process.hrtime` minus `performance.now` on the application's thread, in milliseconds. */
      readonly clockOffsetMs: number
    }
  | {
      readonly kind: 'function'
      readonly port: MessagePort
      readonly control: SharedArrayBuffer
      readonly bell: SharedArrayBuffer
      readonly clockOffsetMs: number
      /** Batches that run at the same time. */
      readonly concurrency: number
    }

/** What the init task is given, to say how it went: one {@link StartAnswer}. */
export interface StartTask {
  readonly setup: WorkerSetup
  readonly answer: MessagePort
}

/** A worker's first word, and the only one if it cannot serve. */
export type StartAnswer = { ready: WorkerReady } | { failed: StartRefusal }

/** What a worker says when it serves. */
export interface WorkerReady {
  onnxruntimeVersion: string
  /** Whether onnxruntime-node reads views of a SharedArrayBuffer here; of a thread that calls it. */
  acceptsSharedMemory?: boolean
}

/** Why a worker cannot serve. */
export interface StartRefusal {
  message: string
  /** The code of the underlying error, if it has one. */
  code: string | undefined
  /** Whether onnxruntime-node could not be loaded. */
  onnxruntime: boolean
}

/** An executor whose thread is yet to be started. */
export interface ThreadExecutor extends Executor {
  /** What the init task is to be given, and what of it must be moved. */
  setup(): { setup: WorkerSetup; transferList: MessagePort[] }
  /** The thread has been started; `end` is {@link WorkerThread.end}. */
  started?(end: () => Promise<void>): void
  /** The thread is gone, whatever its last word was. */
  threadEnded(): void
}

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
  | { type: 'close'; questionId: number; sessionId: number }
  /** `copied`: ONNX Runtime cannot read the buffer itself. */
  | { type: 'slot'; slotId: number; sessionId: number; buffer: SharedArrayBuffer; copied: boolean }
  /** The slot's memory is given back; nothing will be submitted there before a new `slot` message. */
  | { type: 'forget'; slotId: number }
  | { type: 'layout'; slotId: number; layoutIndex: number; layout: SlotLayout }
  /** The inputs of the next batch of a slot that do not lie in it. */
  | { type: 'inputs'; slotId: number; mailed: readonly (MailedValue | null)[] }
  /** A batch is cancelled, by its number; of functions only. */
  | { type: 'unwanted'; batch: number }
  | { type: 'exit' }

/** Messages from a worker. */
export type FromWorker =
  | { type: 'opened'; questionId: number; inputs: RawValueMetadata[]; outputs: RawValueMetadata[] }
  | ({ type: 'ranSample'; questionId: number } & SampleRun)
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
