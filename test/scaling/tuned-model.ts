import { ThroughputTuner, type Tuned } from '../../src/models/scaling/throughput-tuner.ts'
import type { ThroughputSetting } from '../../src/models/scaling/throughput-search.ts'
import { FakeClock } from '../fake-clock.ts'

/** A model on a fake clock that gives so many rows a second by its settings, as long as enough comes. */
export class TunedModel implements Tuned {
  readonly clock = new FakeClock()
  readonly tuner: ThroughputTuner
  readonly maxBatchSize = 32
  /** Every setting that was in use, in order. */
  readonly used: ThroughputSetting[] = []
  changing = false
  /** Workers that there are. */
  workers = Infinity
  /** Instances that cannot be had. */
  lacking = Infinity
  bytesPerInstance = 0
  /** Part of what can be done that comes; 1 or more keeps all instances busy. */
  demand = Infinity
  #rows = 0
  #runs = 0
  #batchRows = 32
  #busyMs: number[] = [0]
  readonly #rateOf: (setting: ThroughputSetting) => number

  constructor(
    rateOf: (setting: ThroughputSetting) => number,
    { cores = 4, maxInstances = 256, maxMemoryBytes = Infinity } = {},
  ) {
    this.#rateOf = rateOf
    this.tuner = new ThroughputTuner(this, { maxInstances, maxMemoryBytes }, cores, this.clock)
  }

  get done(): Tuned['done'] {
    return { rows: this.#rows, runs: this.#runs }
  }

  oldestAtMs = Infinity
  overloadCount = 0

  get haveOwnWorkers(): boolean {
    return this.#busyMs.length <= this.workers
  }

  get uses(): Tuned['uses'] {
    return this.#busyMs.map((busyMs) => ({ busyMs, idleSinceMs: null }))
  }

  get setting(): ThroughputSetting {
    return { instances: this.#busyMs.length, batchRows: this.#batchRows }
  }

  capBatches(rows: number): void {
    this.#batchRows = rows
  }

  async divideCores(instances: number): Promise<void> {
    if (instances >= this.lacking) throw new Error('no more can be had')
    this.#busyMs = Array.from({ length: instances }, () => 0)
  }

  memoryBytes(): number {
    return this.bytesPerInstance * this.#busyMs.length
  }

  /** Somebody else changes the number of instances. */
  scale(instances: number): void {
    this.#busyMs = Array.from({ length: instances }, () => 0)
    this.tuner.changed()
  }

  /** Serves for so long. */
  async serve(ms: number): Promise<void> {
    const endMs = this.clock.nowMs() + ms
    while (this.clock.nowMs() < endMs) {
      const { setting } = this
      const last = this.used.at(-1)
      if (last?.instances !== setting.instances || last.batchRows !== setting.batchRows)
        this.used.push(setting)
      const share = Math.min(1, this.demand)
      const runMs = (setting.batchRows * 1000 * setting.instances) / this.#rateOf(setting)
      this.clock.advanceBy(runMs / setting.instances / share)
      this.#rows += setting.batchRows
      this.#runs++
      this.#busyMs = this.#busyMs.map((busyMs) => busyMs + runMs / setting.instances)
      this.tuner.look()
      await Promise.resolve() // changes of instances
      await Promise.resolve()
      await Promise.resolve()
    }
  }
}
