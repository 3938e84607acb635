import type { EngineResources } from './engine-resources.ts'
import type { StagingStats } from '../native/staging-pool.ts'
import type { ModelState } from './model-target.ts'
import type { ModelVersion, NamedModel } from './model-registry.ts'
import type { EventLoopDelayStatistics } from '../observe/latency-histogram.ts'
import type { WorkerStatistics, ModelStatistics } from '../observe/model-statistics.ts'
import type { TraceStatistics } from '../observe/trace-writer.ts'

/** What {@link InferenceEngine.stats} returns. */
export interface EngineStatistics {
  /** By name. */
  readonly models: Readonly<Record<string, NamedStatistics>>
  /** `null` until a model has been loaded. */
  readonly staging: StagingStats | null
  /** Of functions, whose slots are shared memory; `null` until one has been loaded. */
  readonly functionStaging: StagingStats | null
  /** Threads for sessions and functions, and what became of them. */
  readonly workers: readonly WorkerStatistics[]
  /**
   * By how much timers of the application's thread were late, to the millisecond, asked for every 20 ms while requests were in flight; for as long
   * as the thread stood still, as often as it would have been. All 0 before the first request.
   */
  readonly eventLoopDelay: EventLoopDelayStatistics
  /** What became of its traces. */
  readonly traces: TraceStatistics
}

/** Statistics of one version of a name. */
export interface VersionStatistics extends ModelStatistics {
  /** Of one that is `closed` everything is released; it is to be seen until the engine is closed, too. */
  readonly state: ModelState
}

/** Statistics of the version of a name that serves it, and of each that has been opened. */
export interface NamedStatistics extends VersionStatistics {
  /** The version that serves the name. */
  readonly version: number
  /** Each that has been opened, by number. */
  readonly versions: Readonly<Record<number, VersionStatistics>>
}

/** Of all that an engine has. */
export function engineStatistics(
  { models, staging, functionStaging, workerStatistics, loopDelay, traces }: EngineResources,
  statsOf: Parameters<typeof statisticsByName>[1],
): EngineStatistics {
  return {
    models: statisticsByName(models.all(), statsOf),
    staging: staging?.stats() ?? null,
    functionStaging: functionStaging?.stats() ?? null,
    workers: workerStatistics,
    eventLoopDelay: loopDelay.statistics,
    traces: traces.statistics(),
  }
}

/** Of the names that have a version which has been opened. */
function statisticsByName(
  models: readonly NamedModel[],
  statsOf: (version: ModelVersion) => ModelStatistics,
): EngineStatistics['models'] {
  const entries = models.flatMap((named) => {
    const opened = named
      .all()
      .filter(({ serving }) => serving.scheduler !== null || serving.pipeline !== null)
    const versions = Object.fromEntries(
      opened.map((version) => [version.version, { ...statsOf(version), state: version.serving.state }]),
    )
    const serving = opened.find(({ version }) => version === named.serving.version) ?? opened[0]
    if (serving === undefined) return []
    return [[named.name, { ...versions[serving.version]!, version: serving.version, versions }] as const]
  })
  return Object.fromEntries(entries)
}
