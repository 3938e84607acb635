import type { EngineResources } from './engine-resources.ts'
import type { StagingStats } from '../native/staging-pool.ts'
import type { ModelState } from './loaded.ts'
import type { ModelVersion, NamedModel } from './model-registry.ts'
import type { EventLoopDelayStatistics } from '../observe/latency-histogram.ts'
import type { WorkerStatistics, ModelStatistics } from '../observe/model-statistics.ts'
import type { TraceStatistics } from '../observe/trace-writer.ts'

/** The result of {@link InferenceEngine.stats}. */
export interface EngineStatistics {
  /** By name. */
  readonly models: Readonly<Record<string, NamedStatistics>>
  /** `null` until a model has been loaded. */
  readonly staging: StagingStats | null
  /** Staging of functions, which is in shared memory; `null` until a function has been loaded. */
  readonly functionStaging: StagingStats | null
  /** Threads for sessions and functions, and their restarts and failures. */
  readonly workers: readonly WorkerStatistics[]
  /**
   * Delay of timers on the application's thread, in milliseconds, sampled every 20 ms while requests are in flight. A
   * period in which the thread was blocked counts as the samples that it missed. All 0 before the first request.
   */
  readonly eventLoopDelay: EventLoopDelayStatistics
  /** Numbers of traces started, written and lost. */
  readonly traces: TraceStatistics
}

/** Statistics of one version of a model. */
export interface VersionStatistics extends ModelStatistics {
  /** A `closed` version has released everything; it stays in the statistics until the engine is closed. */
  readonly state: ModelState
}

/** Statistics of the version that serves a name, and of every version that has been opened. */
export interface NamedStatistics extends VersionStatistics {
  /** The version that serves the name. */
  readonly version: number
  /** Every version that has been opened, by number. */
  readonly versions: Readonly<Record<number, VersionStatistics>>
}

/** Statistics of everything an engine has. */
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

/** Statistics of names with a version that has been opened. */
function statisticsByName(
  models: readonly NamedModel[],
  statsOf: (version: ModelVersion) => ModelStatistics,
): EngineStatistics['models'] {
  const entries = models.flatMap((named) => {
    const opened = named.all().filter(({ serving }) => serving.served !== null)
    const versions = Object.fromEntries(
      opened.map((version) => [version.version, { ...statsOf(version), state: version.serving.state }]),
    )
    const serving = opened.find(({ version }) => version === named.serving.version) ?? opened[0]
    if (serving === undefined) return []
    return [[named.name, { ...versions[serving.version]!, version: serving.version, versions }] as const]
  })
  return Object.fromEntries(entries)
}
