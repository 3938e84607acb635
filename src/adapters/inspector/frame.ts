/** What the page is told, once in a while. What a window counts came since the frame before, whoever that was told. */
export interface Frame {
  /** When, in milliseconds since the epoch. */
  readonly atMs: number
  /** How far apart frames are meant to be. */
  readonly intervalMs: number
  /** How long the window was; `null` where there is no frame before. */
  readonly windowMs: number | null
  /** Of all models: each counts the requests that it was asked, those of pipelines included. */
  readonly all: Load
  readonly models: readonly ModelFrame[]
  /** Models that are not told of, the idlest, as there are too many. */
  readonly modelsLeftOut: number
  /** That run now. */
  readonly running: readonly RunningBatch[]
  /** The last that ended in the window, in that order. */
  readonly ended: readonly EndedBatch[]
  /** More of them, before these. */
  readonly endedLeftOut: number
  readonly workers: readonly WorkerFrame[]
  readonly staging: readonly StagingFrame[]
  /** `null` where nothing was in flight in the window. */
  readonly eventLoopDelay: LatencyWindow | null
  readonly residentBytes: number
  /** Of the process. */
  readonly uptimeSeconds: number
}

/** What is asked and answered. */
export interface Load {
  /** Requests that wait. */
  readonly waiting: number
  /** Batches that run. */
  readonly running: number
  /** `null` where there is no frame before, or it was loaded since. */
  readonly window: WindowFigures | null
}

/** One version of a model. */
export interface ModelFrame extends Load {
  readonly name: string
  readonly version: number
  readonly state: string
  /** Whether it is the version that serves the name. */
  readonly serves: boolean
  readonly isPipeline: boolean
  readonly maxBatchSize: number
  /** Since it was loaded. */
  readonly answeredCount: number
  /** The same: requests that were rejected or refused, by reason; none that are 0. */
  readonly failures: Readonly<Record<string, number>>
  readonly instances: readonly InstanceFrame[]
  readonly instanceCount: number
}

/** What came in a window. Means are per answered request, `null` without any. */
export interface WindowFigures {
  readonly answered: number
  readonly failed: number
  readonly rows: number
  readonly runs: number
  /** `null` where nothing was answered. */
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

/** Percentiles, each at most 1.6 % too large. */
export interface LatencyWindow {
  readonly p50Us: number
  readonly p90Us: number
  readonly p99Us: number
  readonly maxUs: number
}

export interface InstanceFrame {
  readonly name: string
  readonly worker: string
  readonly runs: number
  /** The part of the window in which it ran; `null` without one. */
  readonly busyShare: number | null
}

/** A batch, without anything of what is in it. */
export interface RunningBatch {
  readonly model: string
  readonly version: number
  readonly id: number
  readonly rows: number
  readonly requests: number
  /** Why it was closed. */
  readonly reason: string
  readonly isRerun: boolean
  readonly instance: string
}

export interface EndedBatch extends RunningBatch {
  readonly inline: boolean
  /** `null` for one that failed, as the two below. */
  readonly endedAtMs: number | null
  /** ONNX Runtime's run, or the function's. */
  readonly inferUs: number | null
  /** From when it was closed to when its outputs were handed out. */
  readonly wholeUs: number | null
}

export interface WorkerFrame {
  readonly name: string
  readonly instances: number
  readonly busyShare: number
  readonly restarts: number
}

/** Staging memory of models, or of functions. */
export interface StagingFrame {
  readonly pool: string
  readonly kind: string
  readonly usedBytes: number
  readonly highWaterBytes: number
  readonly reservedBytes: number
  readonly limitBytes: number
  readonly fallbacks: number
}
