import type { BenchModel } from '../models.ts'

export const workloadNames = ['mlp', 'mlp-binary', 'squeezenet', 'resnet50'] as const

export type WorkloadName = (typeof workloadNames)[number]

/** A model, what callers send, and what they have to get. */
export interface Workload {
  readonly name: WorkloadName
  readonly title: string
  readonly model: BenchModel & { readonly output: string; readonly outputElements: number }
  /** JPEGs are sent, which are decoded, scaled and cut to `rowDims`; else rows. */
  readonly jpeg: boolean
  /** JSON over HTTP; in process there is no form. */
  readonly json: boolean
  /** Rows that a peer may join at most. */
  readonly maxBatchSize: number
  /** Files with what callers send in turn: a JPEG, or the floats of a row. */
  readonly files: readonly string[]
  /** What plain ONNX Runtime answers to each by itself. */
  readonly references: readonly Float32Array[]
  /** How far answers may lie from these: that much of the largest, and for a peer that computes in bfloat16. */
  readonly tolerance: number
  readonly lowPrecisionTolerance: number
  /** Of the open loops, in requests a second. */
  readonly rates: readonly number[]
  /** Of the peers in process, beside these. */
  readonly inProcessRates: readonly number[]
  /** About what this machine gives, to foresee how long the callers' first round takes. */
  readonly usualPerSecond: number
}

/** A load that is held for a while. */
export interface Level {
  /** Of a closed loop. */
  readonly callers?: number
  /** Of an open loop. */
  readonly ratePerSecond?: number
  readonly warmupSeconds: number
  /** Answers that the warm-up takes at least: one for each caller. */
  readonly warmupRequests: number
  readonly seconds: number
  /** The file of an open loop's times (`withArrivals`), once they are known. */
  readonly arrivals?: string
}

/** What programs in process are told. */
export interface LoopInput {
  readonly workload: Pick<Workload, 'model' | 'jpeg' | 'maxBatchSize' | 'files'> & {
    readonly name: WorkloadName
  }
  readonly levels: readonly Level[]
  /** The peer's own. */
  readonly settings: unknown
}
