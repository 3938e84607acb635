import type { Clock } from '../../base/clock.ts'
import { availableCores } from '../../base/available-resources.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { AutoTuneStatistics } from '../../observe/model-statistics.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { Autoscaler } from './autoscaler.ts'
import type { Scaling } from './scaling.ts'
import { ThroughputTuner, type Tuned } from './throughput-tuner.ts'

/** Has the instances of a model follow its load, or find out how many are best, where its configuration says so. */
export class ScaleWatch {
  readonly #autoscaler: Autoscaler | null
  readonly #tuner: ThroughputTuner | null
  readonly #scheduler: Scheduler

  /** @param failed told why a change could not be made. */
  constructor(
    { instanceGroup, autoTune, joinRequests }: ResolvedConfig,
    scaling: Scaling,
    scheduler: Scheduler,
    clock: Clock,
    failed: (reason: Error) => void,
  ) {
    this.#scheduler = scheduler
    const groups = instanceGroup.flatMap((limits, number) =>
      limits.minInstances < limits.maxInstances ? [{ number, limits }] : [],
    )
    this.#autoscaler = groups.length === 0 ? null : new Autoscaler(groups, scaling, clock, failed)
    const cores = availableCores().usable
    this.#tuner =
      autoTune === null
        ? null
        : new ThroughputTuner(tunedOf(scaling, scheduler, cores, joinRequests), autoTune, cores, clock)
    const look = this.#autoscaler?.look ?? this.#tuner?.look
    if (look !== undefined) scheduler.onUpdate = look
  }

  get autoTune(): AutoTuneStatistics | null {
    return this.#tuner?.stats ?? null
  }

  /** Instances came or went. */
  changed(): void {
    this.#countInstances()
    this.#autoscaler?.changed()
    this.#tuner?.changed()
  }

  /** An instance was lost for good. */
  lost(): void {
    this.#countInstances()
    this.#autoscaler?.changed()
    this.#tuner?.lost()
  }

  #countInstances(): void {
    const { times, instances } = this.#scheduler
    times.instances = Math.max(1, instances.size)
  }

  close(): void {
    this.#autoscaler?.close()
    this.#tuner?.close()
  }
}

/** A model of one group, as its tuner sees it. */
function tunedOf(scaling: Scaling, scheduler: Scheduler, cores: number, joinRequests: boolean): Tuned {
  return {
    get changing() {
      return scaling.changing
    },
    get done() {
      return scheduler.stats.done
    },
    get oldestAtMs() {
      return scheduler.oldestAtMs
    },
    get overloadCount() {
      return scheduler.stats.overloadCount
    },
    get uses() {
      return scaling.usesOf(0)
    },
    get haveOwnWorkers() {
      const workers = [...scheduler.instances].map(({ worker }) => worker)
      return new Set(workers).size === workers.length
    },
    // Where none are joined a limit makes no difference, and instances are all that is to be tried.
    maxBatchSize: joinRequests ? Math.max(1, scheduler.joining.largestBatch) : 1,
    capBatches(rows) {
      if (scheduler.times.cap === null) return
      scheduler.times.cap.rows = rows
      scheduler.resized()
    },
    divideCores: (instances) => scaling.divide(0, instances, cores),
    memoryBytes: () => process.memoryUsage.rss(),
  }
}
