import type { InferenceEngine } from '../../engine.ts'
import type { EngineStatistics } from '../../engine/engine-statistics.ts'
import type { Model } from '../../model.ts'
import type { Observers } from '../../observe/request-observer.ts'
import { BatchWatch } from './batch-watch.ts'
import { latencyWindow } from './latency-window.ts'
import { busiestFirst, modelLooks, modelFrame, spanOfLook, type ModelLook } from './model-frame.ts'
import type { Frame, StagingFrame } from './frame.ts'
import { shownName } from './shown-name.ts'
import { windowFigures } from './window-figures.ts'

/** What was seen of an engine at one moment. */
interface Look {
  /** Of this process's clock. */
  readonly atMs: number
  readonly models: ReadonlyMap<string, ModelLook>
  readonly eventLoopDelay: EngineStatistics['eventLoopDelay']
}

/** As many are told of, whatever an engine has. */
const mostModels = 100
const mostWorkers = 128

/** What an inspector sees of its engine. */
export type InspectedEngine = Pick<InferenceEngine, 'stats'> & {
  models(): Pick<Model, 'name' | 'version' | 'versions'>[]
  model(name: string, version: number): Pick<Model, 'capacity'>
}

/** Looks at an engine, again and again while somebody looks at the page. Between `begin` and `end` it is told of batches. */
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

  /** What was seen before is forgotten. */
  end(): void {
    this.#observers.remove(this.#watch)
    this.#watch = new BatchWatch()
    this.#before = null
  }

  /** What there is now, and what came since the last call. */
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
