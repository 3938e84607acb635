import type { ScaleOptions } from './config/scale-options.ts'
import type { ModelState, ModelVersionStatus } from './model-state.ts'
import type { FeedParser } from './request/feeds.ts'
import type { ResponseSharing } from './response-cache/response-sharing.ts'
import type { Scheduler } from './scheduler/scheduler.ts'
import type { Sequences } from './sequences/sequences.ts'

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
  readonly failure: string | null
  readonly scheduler: Scheduler | null
  readonly parser: FeedParser | null
  /** `null` where every request is answered by a run of its own. */
  readonly responses: ResponseSharing | null
  /** `null` for a model without `sequence` in its configuration. */
  readonly sequences: Sequences | null
  readonly splitsOversized: boolean
  scale(options: ScaleOptions): Promise<void>
}
