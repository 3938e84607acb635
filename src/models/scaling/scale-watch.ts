import type { Clock } from '../../base/clock.ts'
import { availableCores } from '../../base/available-resources.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { AutoTuneStatistics } from '../../observe/model-statistics.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { Autoscaler } from './autoscaler.ts'
import type { Scaling } from './scaling.ts'
import { ThroughputTuner, type Tuned } from './throughput-tuner.ts'

/** Autoscales a model's instances, or tunes their number, as its configuration says. */
export class ScaleWatch {
  readonly #autoscaler: Autoscaler | null
  readonly #newTuner: (() => ThroughputTuner) | null
  readonly #scheduler: Scheduler
  #tuner: ThroughputTuner | null
  #isClosed = false

  /** @param failed called with the reason when a change failed. */
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
    this.#newTuner =
      autoTune &&
      (() => new ThroughputTuner(tunedOf(scaling, scheduler, cores, joinRequests), autoTune, cores, clock))
    this.#tuner = this.#newTuner?.() ?? null
    const tunerLook = scheduler.rowCheck === null ? this.#tuner?.look : undefined // else joiningKnown() starts it
    scheduler.onUpdate = this.#autoscaler?.look ?? tunerLook ?? null
  }

  get autoTune(): AutoTuneStatistics | null {
    return this.#tuner?.stats ?? null
  }

  /**
   * Called when it is known whether requests are joined, and when that changes. Starts tuning, or starts it again: results
   * from other batches no longer hold.
   */
  async joiningKnown(): Promise<void> {
    if (this.#newTuner === null || this.#isClosed) return
    this.#scheduler.onUpdate = null
    await this.#tuner!.giveUp()
    this.#tuner!.close()
    if (this.#isClosed) return
    const { cap } = this.#scheduler.times
    if (cap !== null) {
      cap.rows = Infinity
      this.#scheduler.resized()
    }
    this.#tuner = this.#newTuner()
    this.#scheduler.onUpdate = this.#tuner.look
  }

  /** Called when instances were added or removed. */
  changed(): void {
    this.#countInstances()
    this.#autoscaler?.changed()
    this.#tuner?.changed()
  }

  /** Called when an instance was lost for good. */
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
    this.#isClosed = true
    this.#autoscaler?.close()
    this.#tuner?.close()
  }
}

/** A model with one group, in the form that its tuner uses. */
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
    // Without batching a limit makes no difference, and only instances are tuned.
    maxBatchSize: joinRequests ? Math.max(1, scheduler.joining.metadata.maxBatchSize) : 1,
    capBatches(rows) {
      if (scheduler.times.cap === null) return
      scheduler.times.cap.rows = rows
      scheduler.resized()
    },
    divideCores: (instances) => scaling.divide(0, instances, cores),
    memoryBytes: () => process.memoryUsage.rss(),
  }
}
