import type { MessagePort } from 'node:worker_threads'
import type { RowProof, RowQuestion } from '../../onnx/row-proof/prove-rows.ts'
import type { Executor } from './executor.ts'

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
  | {
      readonly kind: 'native'
      readonly port: MessagePort
      /** The addon's path. */
      readonly addon: string
      /** The loop that is to be started. */
      readonly loopId: number
      /** By how much its thread, and ONNX Runtime's own, give way to others. */
      readonly niceIncrement: number
      /** ONNX Runtime's version, as the application's thread has found it. */
      readonly onnxruntimeVersion: string
    }

/** What the init task is given, to say how it went: one {@link StartAnswer}. */
export interface StartTask {
  readonly setup: WorkerSetup
  readonly answer: MessagePort
}

/** A worker's first word, and the only one if it cannot serve. */
export type StartAnswer = { ready: WorkerReady } | { failed: StartRefusal }

/** Asks a thread what the graph of a model says of its rows; see {@link Executor.prove}. */
export interface ProofTask {
  readonly type: 'prove'
  readonly questionId: number
  readonly model: string | SharedArrayBuffer
  /** See {@link bytesId}; 0 for a path. */
  readonly bytesId: number
  readonly questions: readonly RowQuestion[]
}

/** The answer to a {@link ProofTask}. */
export interface ProofAnswer {
  readonly type: 'proved'
  readonly questionId: number
  readonly proofs: readonly RowProof[]
}

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
  /** The thread has been started; `end` is {@link StartedThread.end}. */
  started?(end: () => Promise<void>): void
  /** The thread is gone, whatever its last word was. */
  threadEnded(): void
}
