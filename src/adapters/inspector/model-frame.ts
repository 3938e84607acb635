import type { EngineStatistics } from '../../engine/engine-resources.ts'
import type { ModelVersionStatus } from '../../engine/loaded.ts'
import { cut } from '../../errors.ts'
import type { LatencyDistribution, ModelCapacity, ModelStatistics } from '../../observe/model-statistics.ts'
import {
  batchReasonsOf,
  batchSizesOf,
  serverFigures,
  type ServerFigures,
  type StatisticsSpan,
} from '../../observe/statistics-difference.ts'
import type { LatencyWindow, ModelFrame, WindowFigures } from './frame.ts'

/** A snapshot of one version of a model. */
export interface ModelLook {
  /** Unique among all versions of all models. */
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

/** The part of an engine that looks up models. */
interface HasModels {
  models(): readonly {
    readonly name: string
    readonly version: number
    readonly versions: readonly ModelVersionStatus[]
  }[]
  model(name: string, version: number): { capacity(): ModelCapacity }
}

const mostInstances = 64

/** All versions of an engine's models, in the engine's order. */
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

/** The frame of a model, from its snapshot and the one before. */
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

/** The two snapshots; `null` if the model is new, or was reloaded since and its counts began again. */
export function spanOfLook(
  { statistics: after }: ModelLook,
  earlier: ModelLook | undefined,
): StatisticsSpan | null {
  const before = earlier?.statistics ?? null
  if (before === null || after === null || before.loadMs !== after.loadMs) return null
  return { before, after }
}

/** The models with most requests since the last snapshot come first; equals keep their order. */
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

/** Empty for a model that has no capacity to report yet. */
function capacityOf(engine: HasModels, name: string, version: number): Partial<ModelCapacity> {
  try {
    return engine.model(name, version).capacity()
  } catch {
    return {}
  }
}

/** The combined activity of models between two snapshots of their statistics. */
export function windowFigures(spans: readonly StatisticsSpan[]): WindowFigures {
  const figures = spans.map(serverFigures)
  const sum = (of: (each: ServerFigures) => number) => figures.reduce((total, each) => total + of(each), 0)
  const answered = sum(({ successCount }) => successCount)
  const mean = (of: (each: ServerFigures) => number) =>
    answered === 0 ? null : sum((each) => of(each) * each.successCount) / answered
  const failures = summed(spans.map(failuresBetween))
  const sizes = summed(
    spans.map((span) =>
      Object.fromEntries(batchSizesOf(span).map(({ batchSize, count }) => [batchSize, count])),
    ),
  )
  return {
    answered,
    failed: Object.values(failures).reduce((total, count) => total + count, 0),
    rows: sum(({ inferenceCount }) => inferenceCount),
    runs: sum(({ executionCount }) => executionCount),
    latency: latencyWindow(
      spans.map(({ before, after }) => ({ before: before.latency.total, after: after.latency.total })),
    ),
    overheadUs: mean(({ overheadUs }) => overheadUs),
    queueUs: mean(({ queueUs }) => queueUs),
    inputUs: mean(({ computeInputUs }) => computeInputUs),
    inferUs: mean(({ computeInferUs }) => computeInferUs),
    outputUs: mean(({ computeOutputUs }) => computeOutputUs),
    batchSizes: Object.entries(sizes).map(([batchSize, count]) => ({ batchSize: Number(batchSize), count })), // ascending
    batchReasons: summed(spans.map(batchReasonsOf)),
    failures,
  }
}

/** Requests rejected or refused since the model was loaded, by reason. */
function failuresOf({
  rejections,
  refusals,
}: Pick<ModelStatistics, 'rejections' | 'refusals'>): Record<string, number> {
  return summed([rejections, refusals])
}

function failuresBetween({ before, after }: StatisticsSpan): Record<string, number> {
  const earlier = failuresOf(before)
  return Object.fromEntries(
    Object.entries(failuresOf(after)).map(([reason, count]) => [reason, count - (earlier[reason] ?? 0)]),
  )
}

/** Sums of counts by name, without zeros. */
function summed(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums = new Map<string, number>()
  for (const each of counts)
    for (const [name, count] of Object.entries(each)) sums.set(name, (sums.get(name) ?? 0) + count)
  return Object.fromEntries([...sums].filter(([, count]) => count > 0))
}

/** One distribution at two moments. */
interface DistributionSpan {
  readonly before: Pick<LatencyDistribution, 'buckets'>
  readonly after: Pick<LatencyDistribution, 'buckets'>
}

/** The combined latencies between two snapshots of distributions; `null` if there are none. */
export function latencyWindow(spans: readonly DistributionSpan[]): LatencyWindow | null {
  const counts = new Map<number, number>() // by bound; all distributions share the bounds
  for (const { before, after } of spans) {
    let at = 0 // every earlier bound is in the later snapshot, and both ascend
    for (const { upToMs, count } of after.buckets) {
      const earlier = before.buckets[at]?.upToMs === upToMs ? before.buckets[at++]!.count : 0
      if (count > earlier) counts.set(upToMs, (counts.get(upToMs) ?? 0) + count - earlier)
    }
  }
  const counted = [...counts].sort(([a], [b]) => a - b)
  if (counted.length === 0) return null
  const total = counted.reduce((sum, [, count]) => sum + count, 0)
  const quantileUs = (share: number) => {
    let seen = 0
    return 1000 * counted.find(([, count]) => (seen += count) >= total * share)![0]
  }
  return { p50Us: quantileUs(0.5), p90Us: quantileUs(0.9), p99Us: quantileUs(0.99), maxUs: quantileUs(1) }
}

/** In characters. Names can be anything, and are part of every frame. */
const longestName = 120

/** A name, shortened for display. */
export function shownName(name: string): string {
  return cut(name, longestName)
}
