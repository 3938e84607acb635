import type { StagingStats } from '../../native/staging-pool.ts'
import type { WorkerStatistics } from '../../observe/model-statistics.ts'

/**
 * What the page receives at each interval. A window begins at the frame before, whichever pages received
 * that.
 */
export interface Frame {
  /** Time of the frame, in milliseconds since the epoch. */
  readonly atMs: number
  /** Intended interval between frames. */
  readonly intervalMs: number
  /** Length of the window; `null` without an earlier frame. */
  readonly windowMs: number | null
  /** Sum over all models. Each model counts its own requests, those from pipelines included. */
  readonly all: Load
  readonly models: readonly ModelFrame[]
  /** How many models the frame leaves out. The idlest are left out when there are too many. */
  readonly modelsLeftOut: number
  /** Batches that run now. */
  readonly running: readonly RunningBatch[]
  /** The last batches that ended in the window, in that order. */
  readonly ended: readonly EndedBatch[]
  /** How many more ended before these. */
  readonly endedLeftOut: number
  readonly workers: readonly WorkerFrame[]
  readonly staging: readonly StagingFrame[]
  /** `null` if nothing was in flight in the window. */
  readonly eventLoopDelay: LatencyWindow | null
  readonly residentBytes: number
  /** Uptime of the process. */
  readonly uptimeSeconds: number
}

/** Load of a model, or of all models. */
export interface Load {
  /** Requests in the queue. */
  readonly waiting: number
  /** Batches in execution. */
  readonly running: number
  /** `null` without an earlier frame, or if the model was loaded since. */
  readonly window: WindowFigures | null
}

/** One version of a model. */
export interface ModelFrame extends Load {
  readonly name: string
  readonly version: number
  readonly state: string
  /** Whether this version serves the name. */
  readonly serves: boolean
  readonly isPipeline: boolean
  readonly maxBatchSize: number
  /** Requests answered since the model was loaded. */
  readonly answeredCount: number
  /** Requests rejected or refused since the model was loaded, by reason. Zero counts are left out. */
  readonly failures: Readonly<Record<string, number>>
  readonly instances: readonly InstanceFrame[]
  readonly instanceCount: number
}

/** Figures of a window. Means are per answered request, and `null` without any. */
export interface WindowFigures {
  readonly answered: number
  readonly failed: number
  readonly rows: number
  readonly runs: number
  /** `null` if no request was answered. */
  readonly latency: LatencyWindow | null
  readonly overheadUs: number | null
  readonly queueUs: number | null
  readonly inputUs: number | null
  readonly inferUs: number | null
  readonly outputUs: number | null
  readonly batchSizes: readonly { readonly batchSize: number; readonly count: number }[]
  readonly batchReasons: Readonly<Record<string, number>>
  readonly failures: Readonly<Record<string, number>>
}

/** Percentiles. Each may be up to 1.6 % too high. */
export interface LatencyWindow {
  readonly p50Us: number
  readonly p90Us: number
  readonly p99Us: number
  readonly maxUs: number
}

interface InstanceFrame {
  readonly name: string
  readonly worker: string
  readonly runs: number
  /** Fraction of the window in which the instance ran; `null` without a window. */
  readonly busyShare: number | null
}

/** A batch, without its contents. */
export interface RunningBatch {
  readonly model: string
  readonly version: number
  readonly id: number
  readonly rows: number
  readonly requests: number
  /** Why the batch was closed. */
  readonly reason: string
  readonly isRerun: boolean
  readonly instance: string
}

export interface EndedBatch extends RunningBatch {
  readonly inline: boolean
  /** `null` for a batch that failed; so are the two below. */
  readonly endedAtMs: number | null
  /** Duration of ONNX Runtime's run, or of the function. */
  readonly inferUs: number | null
  /** From closing the batch to delivering its outputs. */
  readonly wholeUs: number | null
}

interface WorkerFrame extends Pick<WorkerStatistics, 'instances' | 'busyShare' | 'restarts'> {
  readonly name: string
}

/** Staging memory of models or of functions. */
export interface StagingFrame extends Pick<
  StagingStats,
  'kind' | 'usedBytes' | 'highWaterBytes' | 'reservedBytes' | 'limitBytes' | 'fallbacks'
> {
  readonly pool: string
}
