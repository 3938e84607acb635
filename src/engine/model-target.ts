import type { ScaleOptions } from '../options/method-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { ResolvedPipeline } from '../options/pipeline-config.ts'
import type { ImageDecoding } from '../features/leases/image-decoding.ts'
import type { ModelLeases } from '../features/leases/leases.ts'
import type { ModelOrigin } from '../options/engine-options.ts'
import type { AutoTuneStatistics, ModelStatistics } from '../observe/model-statistics.ts'
import type { Pipeline } from '../features/pipelines/pipeline.ts'
import type { FeedParser } from '../request/feeds.ts'
import type { ResponseSharing } from '../features/response-cache/response-sharing.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import type { Sequences } from '../features/sequences/sequences.ts'
import type { Worker } from '../run/worker.ts'
import { InferenceError } from '../errors.ts'
import type { ModelStats } from '../observe/model-stats.ts'
import { refusalOf } from '../observe/rejections.ts'

/** The target of a `Model`: a name, or one version of it. */
export interface ModelTarget {
  readonly name: string
  /** The model that requests go to; changes when it is loaded again. */
  readonly serving: ModelLifecycle
  readonly versions: ModelVersionStatus[]
}

/** The view of a loaded model that `Model` uses. */
export interface ModelLifecycle {
  readonly version: number
  readonly state: ModelState
  /** The configuration, with defaults. */
  readonly config: ResolvedConfig | ResolvedPipeline
  readonly failure: string | null
  readonly scheduler: Scheduler | null
  readonly parser: FeedParser | null
  /** `null` where every request has a run of its own. */
  readonly responses: ResponseSharing | null
  /** `null` for a model without `sequence` in its configuration. */
  readonly sequences: Sequences | null
  readonly leases: ModelLeases
  /** `null` for a model without inputs for encoded images. */
  readonly images: ImageDecoding | null
  readonly splitsOversized: boolean
  /** Names of the inputs that a request may leave out. */
  readonly optionalInputs: readonly string[]
  /** `null` until it serves, and for a model that is not a pipeline, which has a `scheduler` instead. */
  readonly pipeline: Pipeline | null
  /** `null` without `autoTune`. */
  readonly autoTune: AutoTuneStatistics | null
  scale(options: ScaleOptions): Promise<void>
}

/** Anything that can be loaded as a version of a name: a model, a function, a pipeline. */
export interface Loadable extends ModelLifecycle {
  readonly name: string
  /** What its sessions are opened from; `null` before that is known, and without sessions. */
  readonly origin: ModelOrigin | null
  /** The workers of its sessions. */
  readonly workers: Worker[]
  /** Loads it; the state is then `ready`. Rejects with a typed error, with everything released. */
  load(): Promise<void>
  /** Cancels the load: no further step of it begins. */
  abortLoad(reason: string): void
  /** Accepts no more requests of callers; pipelines with it as a step continue. */
  refuse(): void
  /**
   * Accepts no more requests, finishes accepted ones (or rejects them and stops runs), and releases everything. Leases
   * move to a successor.
   */
  close(destroy: boolean, successor?: Loadable): Promise<void>
}

/**
 * The state of a model:
 *
 * - `loading`: until every instance is open and warmed up.
 * - `ready`: it serves.
 * - `draining`: accepted requests are being finished.
 * - `closed`: everything is released.
 * - `failed`: it could not be loaded, its workers died three times in a row during its own runs, or no thread could be
 *   started any more.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** The status of one version of a name. */
export interface ModelVersionStatus {
  /** Its number. */
  readonly version: number
  /** Its state. */
  readonly state: ModelState
  /** Why it failed; `null` unless its state is `failed`. */
  readonly failure: string | null
  /** Whether another load is in progress that will replace it. */
  readonly replacing: boolean
}

/** Advice for a caller on a model that is not ready, other than to load it again. */
const nextStep: Partial<Record<ModelState, string>> = {
  loading: 'Wait for load().',
  draining: 'It takes no more requests: it, or its engine, is being closed.',
}

/** The error for a request to a model that is not ready. */
export function notReady(
  model: string,
  { state, failure }: { readonly state: ModelState; readonly failure: string | null },
): InferenceError {
  const closed = state === 'draining' || state === 'closed'
  const why = failure === null ? '' : `: ${failure}`
  const message = `Model '${model}' is ${state}${why}. ${nextStep[state] ?? 'Load it again.'}`
  return new InferenceError(closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY', message, {
    model,
    expected: 'ready',
    received: state,
  })
}

type Serving = Pick<ModelLifecycle, 'scheduler' | 'pipeline' | 'responses' | 'leases' | 'autoTune'>

/** Statistics so far; `null` before it has served. */
export function statisticsOf({
  scheduler,
  pipeline,
  responses,
  leases,
  autoTune,
}: Serving): ModelStatistics | null {
  if (pipeline !== null) return pipeline.stats()
  if (scheduler === null) return null
  const { instances, stats, waiting } = scheduler
  return stats.snapshot(waiting, instances.arena, responses?.totals, {
    instances: instances.statistics,
    leases: leases.stats,
    autoTune,
  })
}

/**
 * Counts a call that failed before it became a request, and rejects; not counted before the model has served.
 *
 * @param signal of the call.
 */
export function refused(serving: Serving, error: unknown, signal?: AbortSignal): Promise<never> {
  countsOf(serving)?.refused(refusalOf(error, signal))
  return Promise.reject(error)
}

/** Records that the model serves, and its load time. */
export function noteLoad(serving: Serving, loadMs: number): void {
  const counts = countsOf(serving)
  if (counts !== undefined) counts.loadMs = loadMs
}

function countsOf({ scheduler, pipeline }: Serving): ModelStats | undefined {
  return pipeline?.counts.stats ?? scheduler?.stats
}
