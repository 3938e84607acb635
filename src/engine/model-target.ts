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

/** What a `Model` stands for: a name, or one version of it. */
export interface ModelTarget {
  readonly name: string
  /** Where requests go: another one once it was loaded again. */
  readonly serving: ModelLifecycle
  readonly versions: ModelVersionStatus[]
}

/** What a `Model` shows of the engine's work on it. */
export interface ModelLifecycle {
  readonly version: number
  readonly state: ModelState
  /** As it was asked for, with defaults. */
  readonly config: ResolvedConfig | ResolvedPipeline
  readonly failure: string | null
  readonly scheduler: Scheduler | null
  readonly parser: FeedParser | null
  /** `null` where every request is answered by a run of its own. */
  readonly responses: ResponseSharing | null
  /** `null` for a model without `sequence` in its configuration. */
  readonly sequences: Sequences | null
  readonly leases: ModelLeases
  /** `null` for a model no input of which takes encoded images. */
  readonly images: ImageDecoding | null
  readonly splitsOversized: boolean
  /** Names of the inputs that a request may leave out. */
  readonly optionalInputs: readonly string[]
  /** `null` until it serves, and for what is none: then there is a `scheduler`. */
  readonly pipeline: Pipeline | null
  /** `null` where nothing is tuned. */
  readonly autoTune: AutoTuneStatistics | null
  scale(options: ScaleOptions): Promise<void>
}

/** What is loaded as a version of a name: a model, a function, a pipeline. */
export interface Loadable extends ModelLifecycle {
  readonly name: string
  /** What its sessions are opened from; `null` before that is known, and for what has none. */
  readonly origin: ModelOrigin | null
  /** Those of its sessions. */
  readonly workers: Worker[]
  /** Has it serve; `ready` afterwards. Rejects with a typed error, with nothing left open. */
  load(): Promise<void>
  /** It is not wanted any more while it is being loaded: nothing more of that is begun. */
  abortLoad(reason: string): void
  /** Takes no requests of callers any more; pipelines of which it is a step go on. */
  refuse(): void
  /** Takes no more requests, finishes those accepted (or rejects them and stops what runs), releases everything; leases go on with a successor. */
  close(destroy: boolean, successor?: Loadable): Promise<void>
}

/**
 * `loading` until every instance is up and warmed, then `ready`; `draining` while what was accepted is finished, then
 * `closed`; `failed` when it could not be loaded, its workers died three times in a row over its own runs, or no thread could be had
 * any more.
 */
export type ModelState = 'loading' | 'ready' | 'draining' | 'closed' | 'failed'

/** What becomes of one version of a name. */
export interface ModelVersionStatus {
  /** Its number. */
  readonly version: number
  /** How far it is. */
  readonly state: ModelState
  /** Why it failed; `null` unless its state is `failed`. */
  readonly failure: string | null
  /** Whether it is being loaded again, to take its place. */
  readonly replacing: boolean
}

/** What a caller can do about a model that is not ready, if that is not to load it again. */
const nextStep: Partial<Record<ModelState, string>> = {
  loading: 'Wait for load().',
  draining: 'It takes no more requests: it, or its engine, is being closed.',
}

/** The error of whoever wants something of a model that is not ready. */
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

/** What was counted so far; `null` before it has served. */
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
 * The answer of a call that comes to no request, which is counted; not before it has served.
 *
 * @param signal of the call.
 */
export function refused(serving: Serving, error: unknown, signal?: AbortSignal): Promise<never> {
  countsOf(serving)?.refused(refusalOf(error, signal))
  return Promise.reject(error)
}

/** It serves, after so long. */
export function noteLoad(serving: Serving, loadMs: number): void {
  const counts = countsOf(serving)
  if (counts !== undefined) counts.loadMs = loadMs
}

function countsOf({ scheduler, pipeline }: Serving): ModelStats | undefined {
  return pipeline?.counts.stats ?? scheduler?.stats
}
