import type { InferenceEngine } from '../../engine.ts'
import type { EngineStatistics } from '../../engine/engine-resources.ts'
import { cut } from '../../errors.ts'
import type { Model } from '../../model.ts'
import type { LatencyDistribution, ModelCapacity, ModelStatistics } from '../../observe/model-statistics.ts'
import type { Observers } from '../../observe/observers.ts'
import type { ObservedBatch, ObservedModel, RequestObserver } from '../../observe/request-observer.ts'
import {
  batchReasonsOf,
  batchSizesOf,
  serverFigures,
  type ServerFigures,
  type StatisticsSpan,
} from '../../observe/statistics-difference.ts'
import type {
  EndedBatch,
  Frame,
  RunningBatch,
  StagingFrame,
  LatencyWindow,
  ModelFrame,
  WindowFigures,
} from './frame.ts'

/** A snapshot of an engine. */
interface Look extends Pick<EngineStatistics, 'eventLoopDelay'> {
  /** By this process's clock. */
  readonly atMs: number
  readonly models: ReadonlyMap<string, ModelLook>
}

/** Most models in a frame. */
const mostModels = 100
const mostWorkers = 128

/** The part of an engine that an inspector reads. */
type InspectedEngine = Pick<InferenceEngine, 'stats'> & {
  models(): Pick<Model, 'name' | 'version' | 'versions'>[]
  model(name: string, version: number): Pick<Model, 'capacity'>
}

/**
 * Takes a snapshot of an engine for each frame while pages are open. It observes batches between `begin` and
 * `end`.
 */
export class FrameSource {
  readonly #engine: InspectedEngine
  readonly #observers: Pick<Observers, 'add' | 'remove'>
  readonly #intervalMs: number
  #watch = new BatchWatch()
  #before: Look | null = null

  constructor(engine: InspectedEngine, observers: Pick<Observers, 'add' | 'remove'>, intervalMs: number) {
    this.#engine = engine
    this.#observers = observers
    this.#intervalMs = intervalMs
  }

  begin(): void {
    this.#observers.add(this.#watch)
  }

  /** Discards earlier snapshots. */
  end(): void {
    this.#observers.remove(this.#watch)
    this.#watch = new BatchWatch()
    this.#before = null
  }

  /** The current state, and what happened since the last call. */
  next(): Frame {
    const statistics = this.#engine.stats()
    const before = this.#before
    const now: Look = {
      atMs: performance.now(),
      models: modelLooks(this.#engine, statistics),
      eventLoopDelay: statistics.eventLoopDelay,
    }
    this.#before = now
    const looks = [...now.models.values()]
    const earlier = ({ key }: ModelLook) => before?.models.get(key)
    const windowMs = before === null ? null : now.atMs - before.atMs
    const shown = looks.length > mostModels ? busiestFirst(looks, earlier).slice(0, mostModels) : looks
    const { ended, leftOut } = this.#watch.takeEnded()
    return {
      atMs: Date.now(),
      intervalMs: this.#intervalMs,
      windowMs,
      all: {
        waiting: looks.reduce((sum, look) => sum + look.waiting, 0),
        running: looks.reduce((sum, look) => sum + look.running, 0),
        window:
          before === null
            ? null
            : windowFigures(looks.flatMap((look) => spanOfLook(look, earlier(look)) ?? [])),
      },
      models: shown.map((look) => modelFrame(look, earlier(look), windowMs)),
      modelsLeftOut: looks.length - shown.length,
      running: this.#watch.running(),
      ended,
      endedLeftOut: leftOut,
      workers: statistics.workers.slice(0, mostWorkers).map(({ worker, instances, busyShare, restarts }) => ({
        name: shownName(worker),
        instances,
        busyShare,
        restarts,
      })),
      staging: stagingOf(statistics),
      eventLoopDelay:
        before === null
          ? null
          : latencyWindow([{ before: before.eventLoopDelay, after: now.eventLoopDelay }]),
      residentBytes: process.memoryUsage.rss(),
      uptimeSeconds: process.uptime(),
    }
  }
}

function stagingOf({ staging, functionStaging }: EngineStatistics): StagingFrame[] {
  return Object.entries({ models: staging, functions: functionStaging }).flatMap(([pool, stats]) => {
    if (stats === null) return []
    const { kind, usedBytes, highWaterBytes, reservedBytes, limitBytes, fallbacks } = stats
    return [{ pool, kind, usedBytes, highWaterBytes, reservedBytes, limitBytes, fallbacks }]
  })
}

/** Most ended batches in a frame, and most running ones. */
const mostBatches = 40

/** Observes batches as they begin and end, and keeps the last ones that ended. It observes no requests. */
export class BatchWatch implements RequestObserver {
  readonly #running = new Map<ObservedModel, Map<number, ObservedBatch>>()
  readonly #ended: ObservedBatch[] = []
  #endedCount = 0

  begun(): null {
    return null
  }

  batchBegan(batch: ObservedBatch): void {
    let ofModel = this.#running.get(batch.model)
    if (ofModel === undefined) this.#running.set(batch.model, (ofModel = new Map()))
    ofModel.set(batch.id, batch)
  }

  batchEnded(batch: ObservedBatch): void {
    const ofModel = this.#running.get(batch.model)
    ofModel?.delete(batch.id)
    if (ofModel?.size === 0) this.#running.delete(batch.model)
    this.#ended[this.#endedCount++ % mostBatches] = batch
  }

  /** The batches that run now. */
  running(): RunningBatch[] {
    const all = [...this.#running.values()].flatMap((ofModel) => [...ofModel.values()])
    return all.slice(0, mostBatches).map(runningBatch)
  }

  /** The batches that ended since the last call, in that order, and how many more there were. */
  takeEnded(): { readonly ended: EndedBatch[]; readonly leftOut: number } {
    const oldest = Math.max(0, this.#endedCount - mostBatches)
    const ended = Array.from({ length: this.#endedCount - oldest }, (_, index) =>
      endedBatch(this.#ended[(oldest + index) % mostBatches]!),
    )
    this.#ended.length = this.#endedCount = 0
    return { ended, leftOut: oldest }
  }
}

function runningBatch({
  model,
  id,
  rows,
  requestCount,
  reason,
  isRerun,
  instance,
}: ObservedBatch): RunningBatch {
  return {
    model: shownName(model.name),
    version: model.version,
    id,
    rows,
    requests: requestCount,
    reason,
    isRerun,
    instance: shownName(instance),
  }
}

/** Leaves out the error: its message may contain request data. */
function endedBatch(batch: ObservedBatch): EndedBatch {
  const { moments, inline } = batch
  const us = (from: number, to: number) => 1000 * (to - from)
  return {
    ...runningBatch(batch),
    inline,
    endedAtMs: moments === null ? null : performance.timeOrigin + moments.doneAtMs,
    inferUs: moments === null ? null : us(moments.inferStartMs, moments.inferEndMs),
    wholeUs: moments === null ? null : us(moments.takenAtMs, moments.doneAtMs),
  }
}

/** A snapshot of one version of a model. */
interface ModelLook extends Pick<
  ModelFrame,
  'name' | 'version' | 'state' | 'serves' | 'waiting' | 'running' | 'maxBatchSize'
> {
  /** Unique among all versions of all models. */
  readonly key: string
  /** `null` until it has been opened. */
  readonly statistics: ModelStatistics | null
}

const mostInstances = 64

/** All versions of an engine's models, in the engine's order. */
function modelLooks(engine: InspectedEngine, { models }: EngineStatistics): Map<string, ModelLook> {
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
function modelFrame(look: ModelLook, earlier: ModelLook | undefined, windowMs: number | null): ModelFrame {
  const { key: _, statistics, ...shown } = look
  const span = spanOfLook(look, earlier)
  const busyBefore = new Map(span?.before.instances.map((instance) => [instance.name, instance.busyMs]))
  return {
    ...shown,
    name: shownName(shown.name),
    isPipeline: statistics?.steps !== undefined,
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
function spanOfLook({ statistics: after }: ModelLook, earlier: ModelLook | undefined): StatisticsSpan | null {
  const before = earlier?.statistics ?? null
  if (before === null || after === null || before.loadMs !== after.loadMs) return null
  return { before, after }
}

/** The models with most requests since the last snapshot come first; equals keep their order. */
function busiestFirst(
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
function capacityOf(engine: InspectedEngine, name: string, version: number): Partial<ModelCapacity> {
  try {
    return engine.model(name, version).capacity()
  } catch {
    return {}
  }
}

/** The combined activity of models between two snapshots of their statistics. */
function windowFigures(spans: readonly StatisticsSpan[]): WindowFigures {
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
function shownName(name: string): string {
  return cut(name, longestName)
}
