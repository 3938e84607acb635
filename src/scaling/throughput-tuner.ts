import type { Clock } from '../clock.ts'
import type { ResolvedAutoTune } from '../config/auto-tune-options.ts'
import type { AutoTuneStatistics } from '../observability/auto-tune-stats.ts'
import { Alarm } from '../queue/alarm.ts'
import type { InstanceUse } from './autoscaler.ts'
import { isSame, settingsToTry, ThroughputSearch, type ThroughputSetting, type TriedSetting } from './throughput-search.ts'

/** A measurement takes so long, and so many runs of each instance; the first ones after a change do not count. */
const windowMs = 500
const runsPerWindow = 4
const runsToSettle = 2
/** Part of the time for which instances are busy that cannot do more. */
const saturatedShare = 0.85
/** Measurements in a row that have to say the same before a search begins. */
const agreeing = 3
/** Rows a second, to those after the last search, from which on the load is another one ... */
const otherBelow = 0.7
const otherAbove = 1.4
/** ... and is worth a search again, after a wait that doubles with each. */
const firstPauseMs = 60_000
const longestPauseMs = 3_600_000
/** A measurement that takes so many times what the ones before did has lost its load. */
const lostTimes = 10

/** What is tuned. */
export interface Tuned {
  /** Whether a change of the instances is under way, whoever asked for it. */
  readonly changing: boolean
  /** Rows and runs so far. */
  readonly done: { readonly rows: number; readonly runs: number }
  readonly uses: readonly InstanceUse[]
  /** Whether no two instances share a worker. */
  readonly haveOwnWorkers: boolean
  /** How many rows a batch may have. */
  readonly maxBatchSize: number
  capBatches(rows: number): void
  /** Has so many instances divide the cores among them; resolves when they serve. */
  divideCores(instances: number): Promise<void>
  /** Bytes of memory that the process has. */
  memoryBytes(): number
}

interface Window {
  readonly fromMs: number
  readonly rows: number
  readonly runs: number
  readonly busyMs: number
}

/**
 * Finds out for one model whether batches or instances give more rows a second. It measures while the model is busy, by runs that end:
 * an idle model has no timer. Once there is as much to do as can be done it tries some settings, and keeps the best; it
 * looks again only when the load has become another one, and ever more rarely.
 */
export class ThroughputTuner {
  readonly #model: Tuned
  readonly #options: ResolvedAutoTune
  readonly #cores: number
  readonly #clock: Clock
  readonly #alarm: Alarm
  #present: ThroughputSetting
  #search: ThroughputSearch | null = null
  #tried: readonly TriedSetting[] = []
  #searchCount = 0
  #window: Window | null = null
  #skipRuns = 0
  #seenRuns = -1
  #longestWindowMs = windowMs
  #saturatedCount = 0
  #otherCount = 0
  /** Rows a second since the last search; `null` before it was measured. */
  #usualRate: number | null = null
  #pauseMs = firstPauseMs
  #searchAtMs = 0
  #ownBytes = 0
  #applying = false
  #closed = false

  constructor(model: Tuned, options: ResolvedAutoTune, cores: number, clock: Clock) {
    this.#model = model
    this.#options = options
    this.#cores = cores
    this.#clock = clock
    this.#alarm = new Alarm(clock, () => void this.#giveUp())
    this.#present = { instances: model.uses.length, batchRows: model.maxBatchSize }
  }

  get stats(): AutoTuneStatistics {
    return { state: this.#search === null ? 'watching' : 'searching', ...this.#present, searchCount: this.#searchCount, tried: this.#tried }
  }

  /** Requests came, or runs ended. */
  readonly look = (): void => {
    if (this.#closed || this.#applying) return
    const { rows, runs } = this.#model.done
    if (runs === this.#seenRuns) return
    this.#seenRuns = runs
    if (this.#skipRuns > 0 && --this.#skipRuns > 0) return
    const nowMs = this.#clock.nowMs()
    const busyMs = this.#model.uses.reduce((sum, use) => sum + use.busyMs, 0)
    const window = this.#window
    if (window === null) return void (this.#window = { fromMs: nowMs, rows, runs, busyMs })
    const tookMs = nowMs - window.fromMs
    const instances = this.#model.uses.length
    if (tookMs < windowMs || runs - window.runs < runsPerWindow * instances) return
    this.#window = { fromMs: nowMs, rows, runs, busyMs }
    const rowsPerSecond = ((rows - window.rows) * 1000) / tookMs
    if (this.#search === null) this.#watched(rowsPerSecond, (busyMs - window.busyMs) / (tookMs * instances), tookMs, nowMs)
    else this.#measured(this.#search, rowsPerSecond)
  }

  /** Instances came or went that somebody else asked for, or that were lost. */
  changed(): void {
    if (this.#applying || this.#closed) return
    this.#endSearch()
    this.#present = { ...this.#present, instances: this.#model.uses.length }
    this.#model.capBatches(this.#present.batchRows)
    this.#startOver()
  }

  close(): void {
    this.#closed = true
    this.#endSearch()
  }

  #watched(rowsPerSecond: number, busyShare: number, tookMs: number, nowMs: number): void {
    if (busyShare < saturatedShare) {
      this.#saturatedCount = this.#otherCount = 0
      return
    }
    this.#longestWindowMs = Math.max(windowMs, tookMs)
    this.#saturatedCount++
    if (this.#searchCount > 0) {
      this.#usualRate ??= rowsPerSecond
      const change = rowsPerSecond / this.#usualRate
      this.#otherCount = change < otherBelow || change > otherAbove ? this.#otherCount + 1 : 0
      if (this.#otherCount < agreeing) return
    }
    if (this.#saturatedCount < agreeing || nowMs < this.#searchAtMs || this.#model.changing) return
    const most = Math.min(this.#options.maxInstances, this.#cores)
    const settings = settingsToTry(Math.max(most, this.#present.instances), this.#model.maxBatchSize, this.#present)
    if (settings.length === 1) return
    this.#search = new ThroughputSearch(settings)
    this.#ownBytes = this.#model.memoryBytes()
    void this.#try(this.#search)
  }

  #measured(search: ThroughputSearch, rowsPerSecond: number): void {
    if (this.#model.memoryBytes() - this.#ownBytes > this.#options.maxMemoryBytes && !isSame(search.next!, this.#present)) search.unavailable()
    else search.measured(rowsPerSecond)
    void this.#try(search)
  }

  /** Goes on with what is to be measured next, or to the end of the search. */
  async #try(search: ThroughputSearch): Promise<void> {
    this.#alarm.clear()
    for (let { next } = search; search === this.#search; { next } = search) {
      if (next === null) return this.#finish(search.best, search.tried)
      if (await this.#apply(next)) break
      if (search === this.#search) search.unavailable()
    }
    if (search === this.#search) this.#alarm.set(this.#clock.nowMs() + lostTimes * this.#longestWindowMs)
  }

  #finish(best: ThroughputSetting, tried: readonly TriedSetting[]): Promise<void> {
    this.#tried = tried
    this.#searchCount++
    return this.#keep(best)
  }

  /** The load is gone: all is as it was. */
  async #giveUp(): Promise<void> {
    if (this.#search !== null) await this.#keep(this.#present)
  }

  async #keep({ instances, batchRows }: ThroughputSetting): Promise<void> {
    this.#endSearch()
    this.#searchAtMs = this.#clock.nowMs() + this.#pauseMs
    this.#pauseMs = Math.min(longestPauseMs, 2 * this.#pauseMs)
    this.#present = { instances, batchRows }
    if (!(await this.#apply(this.#present))) this.#present = { instances: this.#model.uses.length, batchRows }
  }

  /** False when the setting cannot be had, or somebody else's change is under way: that one holds, and ends the search. */
  async #apply({ instances, batchRows }: ThroughputSetting): Promise<boolean> {
    this.#model.capBatches(batchRows)
    let had = true
    if (instances !== this.#model.uses.length) {
      if (this.#model.changing) {
        this.#endSearch()
        return false
      }
      this.#applying = true
      had = await this.#model.divideCores(instances).then(() => this.#model.haveOwnWorkers, () => false)
      this.#applying = false
    }
    this.#startOver()
    return had
  }

  #endSearch(): void {
    this.#search = null
    this.#alarm.clear()
  }

  #startOver(): void {
    this.#window = null
    this.#skipRuns = 1 + runsToSettle * this.#model.uses.length
    this.#saturatedCount = this.#otherCount = 0
    this.#usualRate = null
  }
}
