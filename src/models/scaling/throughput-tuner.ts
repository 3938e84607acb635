import { type Clock, Alarm } from '../../base/clock.ts'
import type { AutoTuneOptions } from '../../options/instance-groups.ts'
import type { AutoTuneStatistics } from '../../observe/model-statistics.ts'
import { isSame, settingsToTry, ThroughputSearch, type ThroughputSetting } from './throughput-search.ts'
import type { InstanceUse } from './autoscaler.ts'
import { median } from '../../base/numbers.ts'

/**
 * A measurement lasts at least this long, and at least this many runs per instance; the first runs after a change do
 * not count.
 */
const windowMs = 500
const runsPerWindow = 4
const runsToSettle = 2
/** Busy share of the time from which instances are saturated. */
const saturatedShare = 0.85
/** Consecutive measurements that must agree before a search begins. */
const agreeing = 3
const firstPauseMs = 60_000
const longestPauseMs = 3_600_000
/** A measurement that takes this many times as long as earlier ones has lost its load. */
const lostTimes = 10

/**
 * Finds out for one model whether larger batches or more instances give a higher throughput. It measures when runs end,
 * so an idle model has no timer. When the model is saturated it tries some settings and keeps the best. It searches
 * again only when the load has changed, and less and less often. A setting that makes requests wait for long is not
 * tried any longer, and none is tried while requests are refused.
 */
export class ThroughputTuner {
  readonly #model: Tuned
  readonly #cores: number
  readonly #clock: Clock
  readonly #alarm: Alarm
  readonly #bounds: TrialBounds
  readonly #memory: TrialMemory
  #mostInstances: number
  /** The setting to keep, or to return to after a trial. */
  #present: ThroughputSetting
  #batchRowsNow: number
  #search: ThroughputSearch | null = null
  /** The result of the last search. */
  #last: Pick<AutoTuneStatistics, 'tried' | 'decision' | 'finalTurns'> = {
    tried: [],
    decision: null,
    finalTurns: null,
  }
  #searchCount = 0
  #window: ThroughputWindow | null = null
  /** Since the last change of setting, including runs that are not measured. */
  #trial: ThroughputWindow | null = null
  #isWorkingOff = false
  #skipRuns = 0
  #seenRuns = -1
  #ranAtMs = 0
  #longestWindowMs = windowMs
  #saturatedCount = 0
  /** Since the last search. */
  readonly #usual = new UsualRate()
  /** No search begins before this time. Each pause is twice as long as the one before, up to an hour. */
  #pausedUntilMs = 0
  #nextPauseMs = firstPauseMs
  #applying = 0
  #closed = false

  constructor(
    model: Tuned,
    { maxInstances, maxMemoryBytes }: Required<AutoTuneOptions>,
    cores: number,
    clock: Clock,
  ) {
    this.#model = model
    this.#cores = cores
    this.#clock = clock
    this.#mostInstances = maxInstances
    this.#bounds = new TrialBounds(model)
    this.#memory = new TrialMemory(maxMemoryBytes, model)
    this.#alarm = new Alarm(clock, () => this.#tookLong())
    this.#present = { instances: model.uses.length, batchRows: model.maxBatchSize }
    this.#batchRowsNow = model.maxBatchSize
  }

  get stats(): AutoTuneStatistics {
    const search = this.#search
    return {
      state: search === null ? 'watching' : 'searching',
      instances: this.#model.uses.length,
      batchRows: this.#batchRowsNow,
      searchCount: this.#searchCount,
      ...this.#last,
      ...(search !== null && { tried: search.tried }),
    }
  }

  /** Called when requests arrive or runs end. */
  readonly look = (): void => {
    if (this.#closed || this.#applying > 0) return
    const { runs } = this.#model.done
    if (runs === this.#seenRuns) return
    this.#seenRuns = runs
    const nowMs = (this.#ranAtMs = this.#clock.nowMs())
    if (this.#search === null) this.#bounds.see(nowMs)
    else if (this.#isEnough(this.#search, nowMs)) return
    if (this.#skipRuns > 0 && --this.#skipRuns > 0) return
    const window = this.#window
    if (window === null) return void (this.#window = new ThroughputWindow(this.#model, nowMs))
    if (this.#search !== null) window.see(nowMs)
    const tookMs = window.tookMs(nowMs)
    if (tookMs < windowMs || window.runs < runsPerWindow * this.#model.uses.length) return
    this.#window = new ThroughputWindow(this.#model, nowMs)
    if (this.#search === null) this.#watched(window, nowMs)
    else if (!window.isIdle(nowMs))
      this.#leave(this.#search, (search) => search.measured(window.rowsPerSecond(nowMs)))
  }

  /** Called when others added or removed instances. */
  changed(): void {
    if (this.#applying > 0 || this.#closed) return
    if (this.#search !== null) this.#rest()
    this.#present = { ...this.#present, instances: this.#model.uses.length }
    this.#capBatches(this.#present.batchRows)
    this.#startOver()
  }

  /** Called when an instance was lost for good: that many are not tried again. */
  lost(): void {
    const trying = this.#search?.next?.instances ?? 0
    if (this.#closed || trying <= this.#present.instances) return this.changed()
    this.#mostInstances = trying - 1
    void this.giveUp()
  }

  close(): void {
    this.#closed = true
    if (this.#search !== null) this.#capBatches(this.#present.batchRows)
    this.#endSearch()
  }

  #watched(window: ThroughputWindow, nowMs: number): void {
    const tookMs = window.tookMs(nowMs)
    const { busyMs } = window
    this.#bounds.note(busyMs / window.runs)
    if (busyMs < saturatedShare * tookMs * this.#model.uses.length) {
      this.#saturatedCount = 0
      return this.#usual.interrupt()
    }
    this.#longestWindowMs = Math.max(windowMs, tookMs)
    this.#saturatedCount++
    if (this.#searchCount > 0 && !this.#usual.isOther(window.rowsPerSecond(nowMs))) return
    if (this.#saturatedCount < agreeing || nowMs < this.#pausedUntilMs || this.#model.changing) return
    const settings = settingsToTry(
      Math.min(this.#mostInstances, this.#cores),
      this.#model.maxBatchSize,
      this.#present,
    )
    if (settings.length === 1) return
    this.#search = new ThroughputSearch(settings)
    this.#memory.begin(this.#present.instances)
    void this.#try(this.#search)
  }

  /**
   * Whether the measurement of a setting stops here: the backlog is being worked off, or the setting exceeds a limit.
   */
  #isEnough(search: ThroughputSearch, nowMs: number): boolean {
    const next = search.next!
    if (this.#isWorkingOff) {
      if (this.#bounds.isWorkedOff(nowMs)) void this.#try(search)
      return true
    }
    const isPresent = isSame(next, this.#present)
    if (this.#bounds.hasRefused || (isPresent && this.#bounds.isTooSlow(nowMs))) void this.giveUp()
    else if (!isPresent && this.#memory.isOver(nowMs)) this.#leave(search, () => search.unavailable())
    else if (!isPresent && this.#bounds.isTooSlow(nowMs))
      this.#leave(search, () => search.tooSlow(this.#trial?.rowsPerSecond(nowMs) ?? 0))
    else return false
    return true
  }

  /** Moves to the next setting, once the backlog is as usual. */
  #leave(search: ThroughputSearch, note: (search: ThroughputSearch) => void): void {
    this.#memory.note(search.next!.instances)
    note(search)
    if (search.next === null || this.#bounds.isWorkedOff(this.#clock.nowMs())) return void this.#try(search)
    this.#isWorkingOff = true
    void this.#apply(this.#present)
    this.#setAlarm()
  }

  /** Applies the next setting to measure, or ends the search. */
  async #try(search: ThroughputSearch): Promise<void> {
    this.#isWorkingOff = false
    this.#alarm.clear()
    for (let { next } = search; search === this.#search; { next } = search) {
      if (next === null) return this.#finish(search)
      if (this.#model.changing) return this.#rest() // a change by others; its end is reported
      if (this.#memory.allows(next.instances) && (await this.#apply(next))) break
      if (search === this.#search) search.unavailable()
    }
    if (search === this.#search) this.#setAlarm()
  }

  #setAlarm(): void {
    this.#alarm.clear()
    this.#alarm.set(this.#clock.nowMs() + lostTimes * this.#longestWindowMs)
  }

  async #finish({ best, tried, decision, finalTurns }: ThroughputSearch): Promise<void> {
    this.#last = { tried, decision, finalTurns }
    this.#searchCount++
    if (!(await this.#keep(best))) this.#last = { ...this.#last, decision: 'unavailable' }
  }

  /** The load has ended; or, if runs keep ending, the setting is a slow one. */
  #tookLong(): void {
    const search = this.#search!
    const nowMs = this.#clock.nowMs()
    const isGone = nowMs - this.#ranAtMs > (lostTimes * this.#longestWindowMs) / 2
    if (this.#isWorkingOff || isGone || isSame(search.next!, this.#present)) void this.giveUp()
    else this.#leave(search, () => search.tooSlow(this.#trial!.rowsPerSecond(nowMs)))
  }

  /** The load has ended, or cannot bear the search: restores the present setting. */
  async giveUp(): Promise<void> {
    if (this.#search !== null) await this.#keep(this.#present)
  }

  /** False if the setting is no longer available. */
  async #keep({ instances, batchRows }: ThroughputSetting): Promise<boolean> {
    this.#rest()
    this.#present = { instances, batchRows }
    const had = await this.#apply(this.#present)
    if (!had) this.#present = { instances: this.#model.uses.length, batchRows }
    return had
  }

  /** Pauses searches, each time for longer. */
  #rest(): void {
    this.#endSearch()
    this.#pausedUntilMs = this.#clock.nowMs() + this.#nextPauseMs
    this.#nextPauseMs = Math.min(longestPauseMs, 2 * this.#nextPauseMs)
  }

  /** False if the setting is not available. */
  async #apply({ instances, batchRows }: ThroughputSetting): Promise<boolean> {
    this.#capBatches(batchRows)
    let had = true
    // One that is being applied is not counted yet.
    if (this.#applying > 0 || instances !== this.#model.uses.length) {
      this.#applying++
      had = await this.#model.divideCores(instances).then(
        () => this.#model.haveOwnWorkers,
        () => false,
      )
      this.#applying--
    }
    this.#startOver()
    return had
  }

  #capBatches(rows: number): void {
    this.#batchRowsNow = rows
    this.#model.capBatches(rows)
  }

  #endSearch(): void {
    this.#search = null
    this.#isWorkingOff = false
    this.#alarm.clear()
  }

  #startOver(): void {
    this.#window = null
    this.#trial = new ThroughputWindow(this.#model, this.#clock.nowMs())
    this.#skipRuns = 1 + runsToSettle * this.#model.uses.length
    this.#saturatedCount = 0
    this.#usual.forget()
  }
}

/** The model to tune. */
export interface Tuned {
  /** Whether a change of instances is in progress, from any source. */
  readonly changing: boolean
  /** Whether no two instances share a worker. */
  readonly haveOwnWorkers: boolean
  /** Most rows of a batch. */
  readonly maxBatchSize: number
  /** Rows and runs so far. */
  readonly done: { readonly rows: number; readonly runs: number }
  readonly uses: readonly InstanceUse[]
  /** Arrival of the oldest queued request; `Infinity` for none. */
  readonly oldestAtMs: number
  /** Number of requests so far that were refused or timed out. */
  readonly overloadCount: number
  capBatches(rows: number): void
  /** Sets the number of instances that divide the cores among them. Resolves when they serve. */
  divideCores(instances: number): Promise<void>
  /** Memory of the process in bytes. */
  memoryBytes(): number
}

/** Shortest idle time that counts; shorter gaps are the time callers take between an answer and their next request. */
const leastGapMs = 20
/** Most idle time in a window, as a share: with more, it measures the load instead of the setting. */
const idleShare = 0.15

/** A measurement of a model from a moment on, observed when runs end. */
class ThroughputWindow {
  readonly #model: Tuned
  readonly #fromMs: number
  readonly #from: Tuned['done']
  readonly #busyBeforeMs: number
  #seenMs: number
  #seenBusyMs: readonly number[]
  #idleMs = 0

  constructor(model: Tuned, nowMs: number) {
    this.#model = model
    this.#fromMs = this.#seenMs = nowMs
    this.#from = model.done
    this.#seenBusyMs = model.uses.map(({ busyMs }) => busyMs)
    this.#busyBeforeMs = sum(this.#seenBusyMs)
  }

  /** Called when a run ended. */
  see(nowMs: number): void {
    const busyMs = this.#model.uses.map((use) => use.busyMs)
    const most = busyMs.reduce(
      (longest, ms, index) => Math.max(longest, ms - (this.#seenBusyMs[index] ?? 0)),
      0,
    )
    const gapMs = nowMs - this.#seenMs - most
    if (gapMs >= leastGapMs) this.#idleMs += gapMs
    this.#seenMs = nowMs
    this.#seenBusyMs = busyMs
  }

  tookMs(nowMs: number): number {
    return nowMs - this.#fromMs
  }

  get runs(): number {
    return this.#model.done.runs - this.#from.runs
  }

  rowsPerSecond(nowMs: number): number {
    return ((this.#model.done.rows - this.#from.rows) * 1000) / Math.max(1, this.tookMs(nowMs))
  }

  /** Busy milliseconds, summed over all instances. */
  get busyMs(): number {
    return sum(this.#model.uses.map(({ busyMs }) => busyMs)) - this.#busyBeforeMs
  }

  /** Whether the model was idle for part of it. */
  isIdle(nowMs: number): boolean {
    return this.#idleMs > idleShare * this.tookMs(nowMs)
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0)
}

/** During a trial a request may wait for this many times the usual, plus this much. */
const mostTimes = 2
const mostLongerMs = 100
/**
 * The backlog is worked off when the oldest request has waited for at most this many times the usual, plus this much.
 */
const workedOffTimes = 1.25
const workedOffMs = 20

/** Limits on how far trials may slow down requests, relative to the usual. */
class TrialBounds {
  readonly #model: Tuned
  /** Longest wait in the current window, and the usual one from earlier windows. */
  #waitMs = 0
  #usualWaitMs = 0
  #usualRunMs = 0
  #overloadCount = 0
  #isOverloaded = false

  constructor(model: Tuned) {
    this.#model = model
  }

  /** Called when a run ended with the present setting. */
  see(nowMs: number): void {
    this.#waitMs = Math.max(this.#waitMs, nowMs - this.#model.oldestAtMs)
  }

  /** Called at the end of a window with the present setting, with its average run time. */
  note(runMs: number): void {
    const { overloadCount } = this.#model
    this.#isOverloaded = overloadCount > this.#overloadCount
    this.#overloadCount = overloadCount
    this.#usualWaitMs = Math.max(this.#waitMs, (this.#usualWaitMs + this.#waitMs) / 2)
    this.#usualRunMs = runMs
    this.#waitMs = 0
  }

  /** Whether requests were refused or timed out since the last window, if none were during it. */
  get hasRefused(): boolean {
    return !this.#isOverloaded && this.#model.overloadCount > this.#overloadCount
  }

  /** Whether requests wait too long. */
  isTooSlow(nowMs: number): boolean {
    return nowMs - this.#model.oldestAtMs > mostTimes * this.#usualMs + mostLongerMs
  }

  /** Whether requests wait no longer than usual. */
  isWorkedOff(nowMs: number): boolean {
    return nowMs - this.#model.oldestAtMs <= workedOffTimes * this.#usualMs + workedOffMs
  }

  get #usualMs(): number {
    return this.#usualWaitMs + this.#usualRunMs
  }
}

/** Least milliseconds between reads of the memory usage, which take some microseconds. */
const lookEveryMs = 10

/** Keeps trials within their memory limit, relative to the process's memory at the start of the first search. */
class TrialMemory {
  readonly #mostBytes: number
  readonly #model: Tuned
  #ownBytes: number | null = null
  #lookAtMs = 0
  #ownInstances = 0
  /** The largest number of instances tried, and the growth of the process with it. */
  #most = { instances: 0, bytes: 0 }

  constructor(mostBytes: number, model: Tuned) {
    this.#mostBytes = mostBytes
    this.#model = model
  }

  /** Called when a search begins from this number of instances. */
  begin(instances: number): void {
    if (this.#mostBytes === Infinity || this.#ownBytes !== null) return
    this.#ownBytes = this.#model.memoryBytes()
    this.#ownInstances = instances
  }

  /** Whether the limit is exceeded. */
  isOver(nowMs: number): boolean {
    if (this.#mostBytes === Infinity || nowMs < this.#lookAtMs) return false
    this.#lookAtMs = nowMs + lookEveryMs
    return this.#grownBytes > this.#mostBytes
  }

  /** Called after a trial of this number of instances. */
  note(instances: number): void {
    if (this.#mostBytes !== Infinity && instances >= this.#most.instances)
      this.#most = { instances, bytes: Math.max(0, this.#grownBytes) }
  }

  /**
   * Whether this number of instances is expected to stay within the limit, if each takes as much memory as those tried.
   */
  allows(instances: number): boolean {
    const { instances: tried, bytes } = this.#most
    return (
      instances < tried ||
      tried <= this.#ownInstances ||
      (bytes * (instances - this.#ownInstances)) / (tried - this.#ownInstances) <= this.#mostBytes
    )
  }

  get #grownBytes(): number {
    return this.#model.memoryBytes() - this.#ownBytes!
  }
}

/** Throughput below or above these shares of the usual means that the load has changed ... */
const otherBelow = 0.7
const otherAbove = 1.4
/** ... in {@link agreeing} consecutive measurements. The usual is the median of the first ones, this many. */

/** The usual throughput of a busy model under the same load. */
class UsualRate {
  #first: number[] = []
  #otherCount = 0

  /** Adds a measurement; returns whether the load has changed. */
  isOther(rowsPerSecond: number): boolean {
    if (this.#first.length < agreeing) {
      this.#first.push(rowsPerSecond)
      return false
    }
    const change = rowsPerSecond / median(this.#first)
    this.#otherCount = change < otherBelow || change > otherAbove ? this.#otherCount + 1 : 0
    return this.#otherCount >= agreeing
  }

  /** Breaks the series of consecutive measurements. */
  interrupt(): void {
    this.#otherCount = 0
  }

  forget(): void {
    this.#first = []
    this.#otherCount = 0
  }
}
