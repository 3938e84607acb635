import type { InferenceEngine } from '../../engine.ts'
import type { EngineStatistics } from '../../engine/engine-resources.ts'
import type { Model } from '../../model.ts'
import type { ObservedBatch, ObservedModel, RequestObserver } from '../../observe/request-observer.ts'
import type { Observers } from '../../observe/observers.ts'
import {
  busiestFirst,
  latencyWindow,
  modelFrame,
  type ModelLook,
  modelLooks,
  shownName,
  spanOfLook,
  windowFigures,
} from './model-frame.ts'
import type { EndedBatch, Frame, RunningBatch, StagingFrame } from './frame.ts'

/** A snapshot of an engine. */
interface Look {
  /** By this process's clock. */
  readonly atMs: number
  readonly models: ReadonlyMap<string, ModelLook>
  readonly eventLoopDelay: EngineStatistics['eventLoopDelay']
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
        waiting: sumOf(looks, ({ waiting }) => waiting),
        running: sumOf(looks, ({ running }) => running),
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

function sumOf(looks: readonly ModelLook[], of: (look: ModelLook) => number): number {
  return looks.reduce((sum, look) => sum + of(look), 0)
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
