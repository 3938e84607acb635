import type { EngineStatistics } from '../../engine/engine-statistics.ts'
import type { ModelVersionStatus } from '../../engine/model-target.ts'
import type { ModelCapacity, ModelStatistics } from '../../observe/model-statistics.ts'
import type { StatisticsSpan } from '../../observe/statistics-difference.ts'
import type { ModelFrame } from './frame.ts'
import { shownName } from './shown-name.ts'
import { failuresOf, windowFigures } from './window-figures.ts'

/** What was seen of one version of a model at one moment. */
export interface ModelLook {
  /** Of all versions of all models. */
  readonly key: string
  readonly name: string
  readonly version: number
  readonly state: ModelVersionStatus['state']
  readonly serves: boolean
  readonly waiting: number
  readonly running: number
  readonly maxBatchSize: number
  /** `null` until it has been opened. */
  readonly statistics: ModelStatistics | null
}

/** Who has models. */
interface HasModels {
  models(): readonly {
    readonly name: string
    readonly version: number
    readonly versions: readonly ModelVersionStatus[]
  }[]
  model(name: string, version: number): { capacity(): ModelCapacity }
}

const mostInstances = 64

/** All versions that an engine has, in its order. */
export function modelLooks(engine: HasModels, { models }: EngineStatistics): Map<string, ModelLook> {
  const looks = new Map<string, ModelLook>()
  for (const { name, version: serving, versions } of engine.models()) {
    for (const { version, state } of versions) {
      const statistics = (Object.hasOwn(models, name) ? models[name]!.versions[version] : undefined) ?? null
      const { running = 0, maxBatchSize = 0 } = statistics === null ? {} : capacityOf(engine, name, version)
      const key = JSON.stringify([name, version])
      looks.set(key, {
        key,
        name,
        version,
        state,
        serves: version === serving,
        waiting: statistics?.pendingRequestCount ?? 0,
        running,
        maxBatchSize,
        statistics,
      })
    }
  }
  return looks
}

/** What is told of one, beside what was seen of it before. */
export function modelFrame(
  look: ModelLook,
  earlier: ModelLook | undefined,
  windowMs: number | null,
): ModelFrame {
  const { name, version, state, serves, waiting, running, maxBatchSize, statistics } = look
  const span = spanOfLook(look, earlier)
  const busyBefore = new Map(span?.before.instances.map((instance) => [instance.name, instance.busyMs]))
  return {
    name: shownName(name),
    version,
    state,
    serves,
    isPipeline: statistics?.steps !== undefined,
    waiting,
    running,
    maxBatchSize,
    answeredCount: statistics?.inferenceStats.success.count ?? 0,
    failures: statistics === null ? {} : failuresOf(statistics),
    instanceCount: statistics?.instanceCount ?? 0,
    instances: (statistics?.instances ?? []).slice(0, mostInstances).map((instance) => ({
      name: shownName(instance.name),
      worker: shownName(instance.worker),
      runs: instance.runs,
      busyShare:
        windowMs === null
          ? null
          : Math.max(
              0,
              Math.min(1, (instance.busyMs - (busyBefore.get(instance.name) ?? instance.busyMs)) / windowMs),
            ),
    })),
    window: span === null ? null : windowFigures([span]),
  }
}

/** The two looks; `null` where it was not there before, or has been loaded since and counts anew. */
export function spanOfLook(
  { statistics: after }: ModelLook,
  earlier: ModelLook | undefined,
): StatisticsSpan | null {
  const before = earlier?.statistics ?? null
  if (before === null || after === null || before.loadMs !== after.loadMs) return null
  return { before, after }
}

/** Those that were asked most since they were seen before come first; those that are as idle as each other stay in their order. */
export function busiestFirst(
  looks: readonly ModelLook[],
  earlier: (look: ModelLook) => ModelLook | undefined,
): ModelLook[] {
  const asked = ({ statistics }: ModelLook) =>
    statistics === null ? 0 : statistics.inferenceStats.success.count + statistics.inferenceStats.fail.count
  const since = new Map(
    looks.map((look) => [look, asked(look) - (earlier(look) === undefined ? 0 : asked(earlier(look)!))]),
  )
  return looks.toSorted((a, b) => since.get(b)! - since.get(a)!)
}

/** Nothing of one that can say nothing yet. */
function capacityOf(engine: HasModels, name: string, version: number): Partial<ModelCapacity> {
  try {
    return engine.model(name, version).capacity()
  } catch {
    return {}
  }
}
