import type { Clock } from '../base/clock.ts'
import type { ResolvedConfig } from '../options/resolve-model-config.ts'
import type { Placement } from '../options/session-options.ts'
import type { StagingPool } from '../native/staging-pool.ts'
import type { ModelUses } from './model-uses.ts'
import type { ModelEvent, SequenceEvent } from '../observe/engine-events.ts'
import type { Observers } from '../observe/observers.ts'
import type { ModelTarget } from './model-target.ts'
import type { Preparing } from '../models/scaling/session-sources.ts'
import type { EngineProviders } from '../run/engine-providers.ts'
import type { KeepAlive } from '../run/keep-alive.ts'
import type { Worker } from '../run/worker.ts'

/** What the engine lends to the models it loads. */
export interface EngineServices extends Preparing {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  /** Who looks on at the requests and batches of all its models. */
  readonly observers: Observers
  /** Where the slots of a model lie. */
  staging(config: ResolvedConfig): StagingPool
  /** Gives staging memory that nothing holds back to the system. */
  trim(): void
  nextId(): number
  /**
   * A model for a step of a pipeline, and when what is being loaded of it is.
   *
   * @param asker the pipeline.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND`.
   */
  find(
    name: string,
    version: number | undefined,
    asker?: string,
  ): ModelTarget & { loaded(): Promise<unknown> }
  readonly uses: ModelUses
  /** Which execution providers sessions have. */
  readonly providers: Pick<EngineProviders, 'lacking' | 'opened'>
  /** Asked when the model could serve; its load fails with what this rejects with. */
  accept?(): Promise<void>
  /** Told when a model has come to another state. */
  changed(event: ModelEvent): void
  /** Told when a sequence is over. */
  sequenceOver(event: SequenceEvent): void
  /**
   * Chooses a worker for every instance and calls `place` for each; resolves when their threads have started.
   *
   * @param leaving the workers of sessions that are released once this model serves.
   */
  place(
    model: string,
    config: ResolvedConfig,
    place: (worker: Worker, placement: Placement, group: number) => void,
    leaving?: readonly Worker[],
  ): Promise<void>
  /** As `place`, for further instances beside one that was placed; workers in `apartFrom` are taken only when there is no other. */
  placeMore(
    beside: Worker,
    count: number,
    apartFrom: ReadonlySet<Worker>,
    place: (worker: Worker) => void,
    leaving?: readonly Worker[],
  ): Promise<void>
  /** A session on a worker has been closed. */
  released(worker: Worker): Promise<void>
}
