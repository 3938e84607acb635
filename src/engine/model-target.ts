import type { ScaleOptions } from '../options/scale-options.ts'
import type { ResolvedConfig } from '../options/resolve-model-config.ts'
import type { ResolvedPipeline } from '../options/resolve-pipeline-config.ts'
import type { ImageDecoding } from '../features/leases/image-decoding.ts'
import type { ModelLeases } from '../features/leases/model-leases.ts'
import type { ModelState, ModelVersionStatus } from './model-state.ts'
import type { ModelOrigin } from '../options/cache-options.ts'
import type { AutoTuneStatistics } from '../observe/auto-tune-stats.ts'
import type { Pipeline } from '../features/pipelines/pipeline.ts'
import type { FeedParser } from '../request/feeds.ts'
import type { ResponseSharing } from '../features/response-cache/response-sharing.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import type { Sequences } from '../features/sequences/sequences.ts'
import type { Worker } from '../run/worker.ts'

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
