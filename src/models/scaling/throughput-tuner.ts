import type { Clock } from '../../base/clock.ts'
import type { ResolvedAutoTune } from '../../options/instance-groups.ts'
import type { AutoTuneStatistics } from '../../observe/model-statistics.ts'
import { Alarm } from '../../base/alarm.ts'
import { isSame, settingsToTry, ThroughputSearch, type ThroughputSetting } from './throughput-search.ts'
import type { InstanceUse } from './autoscaler.ts'
import { median } from '../../base/median.ts'

/** A measurement takes so long, and so many runs of each instance; the first ones after a change do not count. */
const windowMs = 500
const runsPerWindow = 4
const runsToSettle = 2
/** Part of the time that they are busy which cannot do more. */
const saturatedShare = 0.85
/** Measurements in a row that have to say the same before a search begins. */
const agreeing = 3
/** A measurement that takes so many times what the ones before did has lost its load. */
const lostTimes = 10

/**
 * Finds out for one model whether batches or instances give more rows a second. It measures while the model is busy, by runs that end:
 * an idle model has no timer. Once there is as much to do as can be done it tries some settings, and keeps the best; it
 * looks again only when the load has become another one, and ever more rarely. A setting that makes requests wait for long is not tried
 * for longer, and nothing is while requests find no place.
 */
export class ThroughputTuner {
  readonly #model: Tuned
  readonly #cores: number
  readonly #clock: Clock
  readonly #alarm: Alarm
  readonly #bounds: TrialBounds
  readonly #memory: TrialMemory
  #mostInstances: number
  /** What is kept; while another is tried, what is gone back to. */
  #present: ThroughputSetting
  #batchRowsNow: number
  #search: ThroughputSearch | null = null
  /** What came of the last search. */
  #last: Pick<AutoTuneStatistics, 'tried' | 'decision' | 'finalTurns'> = {
    tried: [],
    decision: null,
    finalTurns: null,
  }
  #searchCount = 0
  #window: ThroughputWindow | null = null
  /** Since a change, with the runs that are not measured. */
  #trial: ThroughputWindow | null = null
  #isWorkingOff = false
  #skipRuns = 0
  #seenRuns = -1
  #ranAtMs = 0
  #longestWindowMs = windowMs
  #saturatedCount = 0
  /** Since the last search. */
  readonly #usual = new UsualRate()
  readonly #pauses = new LongerPauses()
  #applying = 0
  #closed = false

  constructor(model: Tuned, { maxInstances, maxMemoryBytes }: ResolvedAutoTune, cores: number, clock: Clock) {
    this.#model = model
    this.#cores = cores
    this.#clock = clock
    this.#mostInstances = maxInstances
    this.#bounds = new TrialBounds(model)
    this.#memory = new TrialMemory(maxMemoryBytes, () => model.memoryBytes())
    this.#alarm = new Alarm(clock, () => this.#tookLong())
    this.#present = { instances: model.uses.length, batchRows: model.maxBatchSize }
    this.#batchRowsNow = model.maxBatchSize
  }

  get stats(): AutoTuneStatistics {
    const search = this.#search
    const inUse = { instances: this.#model.uses.length, batchRows: this.#batchRowsNow }
    return {
      state: search === null ? 'watching' : 'searching',
      ...inUse,
      searchCount: this.#searchCount,
      ...this.#last,
      ...(search !== null && { tried: search.tried }),
    }
  }

  /** Requests came, or runs ended. */
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

  /** Instances came or went that somebody else asked for. */
  changed(): void {
    if (this.#applying > 0 || this.#closed) return
    if (this.#search !== null) this.#rest()
    this.#present = { ...this.#present, instances: this.#model.uses.length }
    this.#capBatches(this.#present.batchRows)
    this.#startOver()
  }

  /** An instance was lost for good: so many are not tried again. */
  lost(): void {
    const trying = this.#search?.next?.instances ?? 0
    if (this.#closed || trying <= this.#present.instances) return this.changed()
    this.#mostInstances = trying - 1
    void this.#giveUp()
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
    if (this.#saturatedCount < agreeing || !this.#pauses.isOver(nowMs) || this.#model.changing) return
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

  /** Whether nothing more is to be measured of a setting: what waits is being worked off, or it asks for too much. */
  #isEnough(search: ThroughputSearch, nowMs: number): boolean {
    const next = search.next!
    if (this.#isWorkingOff) {
      if (this.#bounds.isWorkedOff(nowMs)) void this.#try(search)
      return true
    }
    const isPresent = isSame(next, this.#present)
    if (this.#bounds.hasRefused || (isPresent && this.#bounds.isTooSlow(nowMs))) void this.#giveUp()
    else if (!isPresent && this.#memory.isOver(nowMs)) this.#leave(search, () => search.unavailable())
    else if (!isPresent && this.#bounds.isTooSlow(nowMs))
      this.#leave(search, () => search.tooSlow(this.#trial?.rowsPerSecond(nowMs) ?? 0))
    else return false
    return true
  }

  /** Goes on to the next setting, once no more waits than usual. */
  #leave(search: ThroughputSearch, note: (search: ThroughputSearch) => void): void {
    this.#memory.note(search.next!.instances)
    note(search)
    if (search.next === null || this.#bounds.isWorkedOff(this.#clock.nowMs())) return void this.#try(search)
    this.#isWorkingOff = true
    void this.#apply(this.#present)
    this.#setAlarm()
  }

  /** Goes on with what is to be measured next, or to the end of the search. */
  async #try(search: ThroughputSearch): Promise<void> {
    this.#isWorkingOff = false
    this.#alarm.clear()
    for (let { next } = search; search === this.#search; { next } = search) {
      if (next === null) return this.#finish(search)
      if (this.#model.changing) return this.#rest() // of somebody else's making; of its end we are told
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

  /** The load is gone; or, where runs go on ending, the setting is a slow one. */
  #tookLong(): void {
    const search = this.#search!
    const nowMs = this.#clock.nowMs()
    const isGone = nowMs - this.#ranAtMs > (lostTimes * this.#longestWindowMs) / 2
    if (this.#isWorkingOff || isGone || isSame(search.next!, this.#present)) void this.#giveUp()
    else this.#leave(search, () => search.tooSlow(this.#trial!.rowsPerSecond(nowMs)))
  }

  /** The load is gone, or cannot bear it: all is as it was. */
  async #giveUp(): Promise<void> {
    if (this.#search !== null) await this.#keep(this.#present)
  }

  /** False when the setting cannot be had any more. */
  async #keep({ instances, batchRows }: ThroughputSetting): Promise<boolean> {
    this.#rest()
    this.#present = { instances, batchRows }
    const had = await this.#apply(this.#present)
    if (!had) this.#present = { instances: this.#model.uses.length, batchRows }
    return had
  }

  /** No search for a while, for longer with each. */
  #rest(): void {
    this.#endSearch()
    this.#pauses.begin(this.#clock.nowMs())
  }

  /** False when the setting cannot be had. */
  async #apply({ instances, batchRows }: ThroughputSetting): Promise<boolean> {
    this.#capBatches(batchRows)
    let had = true
    if (instances !== this.#model.uses.length) {
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

/** What is tuned. */
export interface Tuned extends Measured, Served {
  /** Whether a change of the instances is under way, whoever asked for it. */
  readonly changing: boolean
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

/** What is measured of a model. */
interface Measured {
  /** Rows and runs so far. */
  readonly done: { readonly rows: number; readonly runs: number }
  readonly uses: readonly InstanceUse[]
}

/** Without anything to do for so long, a model was idle; less is what callers take between an answer and their next request. */
const leastGapMs = 20
/** Part of a window that may be idle: else it says more of the load than of the settings. */
const idleShare = 0.15

/** What a model does from a moment on, as it is looked at when runs end. */
class ThroughputWindow {
  readonly #model: Measured
  readonly #fromMs: number
  readonly #from: Measured['done']
  readonly #busyBeforeMs: number
  #seenMs: number
  #seenBusyMs: readonly number[]
  #idleMs = 0

  constructor(model: Measured, nowMs: number) {
    this.#model = model
    this.#fromMs = this.#seenMs = nowMs
    this.#from = model.done
    this.#seenBusyMs = model.uses.map(({ busyMs }) => busyMs)
    this.#busyBeforeMs = sum(this.#seenBusyMs)
  }

  /** A run ended. */
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

  /** For how long instances were busy, all together. */
  get busyMs(): number {
    return sum(this.#model.uses.map(({ busyMs }) => busyMs)) - this.#busyBeforeMs
  }

  /** Whether there was nothing to do for part of it. */
  isIdle(nowMs: number): boolean {
    return this.#idleMs > idleShare * this.tookMs(nowMs)
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0)
}

/** Looked at by its runs: how long requests wait, and how many found no place or no time. */
interface Served {
  /** When the request came that has waited longest; `Infinity` for none. */
  readonly oldestAtMs: number
  /** Requests so far that were refused or ran out of time. */
  readonly overloadCount: number
}

/** A request may wait for so many times the usual, and so much longer, for the sake of a trial. */
const mostTimes = 2
const mostLongerMs = 100
/** What waits has been worked off when it waits for no more than so many times the usual. */
const workedOffTimes = 1.25
const workedOffMs = 20

/** What other settings may do to the requests that meet them, by what these are used to. */
class TrialBounds {
  readonly #model: Served
  /** Of the window that goes on, and of those before it. */
  #waitMs = 0
  #usualWaitMs = 0
  #usualRunMs = 0
  #overloadCount = 0
  #isOverloaded = false

  constructor(model: Served) {
    this.#model = model
  }

  /** A run ended while the settings were in use that requests are used to. */
  see(nowMs: number): void {
    this.#waitMs = Math.max(this.#waitMs, nowMs - this.#model.oldestAtMs)
  }

  /** A window of that is over, in which a run took so long on average. */
  note(runMs: number): void {
    const { overloadCount } = this.#model
    this.#isOverloaded = overloadCount > this.#overloadCount
    this.#overloadCount = overloadCount
    this.#usualWaitMs = Math.max(this.#waitMs, (this.#usualWaitMs + this.#waitMs) / 2)
    this.#usualRunMs = runMs
    this.#waitMs = 0
  }

  /** Whether requests have been refused since then, or ran out of time, as they had not in the window before. */
  get hasRefused(): boolean {
    return !this.#isOverloaded && this.#model.overloadCount > this.#overloadCount
  }

  /** Whether requests wait for too long. */
  isTooSlow(nowMs: number): boolean {
    return nowMs - this.#model.oldestAtMs > mostTimes * this.#usualMs + mostLongerMs
  }

  /** Whether requests wait for no longer than they are used to. */
  isWorkedOff(nowMs: number): boolean {
    return nowMs - this.#model.oldestAtMs <= workedOffTimes * this.#usualMs + workedOffMs
  }

  get #usualMs(): number {
    return this.#usualWaitMs + this.#usualRunMs
  }
}

/** It is looked at so often at most: that takes some microseconds. */
const lookEveryMs = 10

/** Keeps trials within the memory that they were given, beyond what the process had when the first began. */
class TrialMemory {
  readonly #mostBytes: number
  readonly #bytes: () => number
  #ownBytes: number | null = null
  #lookAtMs = 0
  #ownInstances = 0
  /** The largest number of instances that was tried, and what the process had grown by with them. */
  #most = { instances: 0, bytes: 0 }

  /** @param bytes that the process has. */
  constructor(mostBytes: number, bytes: () => number) {
    this.#mostBytes = mostBytes
    this.#bytes = bytes
  }

  /** A search begins from so many instances. */
  begin(instances: number): void {
    if (this.#mostBytes === Infinity || this.#ownBytes !== null) return
    this.#ownBytes = this.#bytes()
    this.#ownInstances = instances
  }

  /** Whether more is taken than may be. */
  isOver(nowMs: number): boolean {
    if (this.#mostBytes === Infinity || nowMs < this.#lookAtMs) return false
    this.#lookAtMs = nowMs + lookEveryMs
    return this.#grownBytes > this.#mostBytes
  }

  /** So many instances were tried. */
  note(instances: number): void {
    if (this.#mostBytes !== Infinity && instances >= this.#most.instances)
      this.#most = { instances, bytes: Math.max(0, this.#grownBytes) }
  }

  /** Whether so many instances are expected to keep to it, by what fewer took: each takes as much as another. */
  allows(instances: number): boolean {
    const { instances: tried, bytes } = this.#most
    return (
      instances < tried ||
      tried <= this.#ownInstances ||
      (bytes * (instances - this.#ownInstances)) / (tried - this.#ownInstances) <= this.#mostBytes
    )
  }

  get #grownBytes(): number {
    return this.#bytes() - this.#ownBytes!
  }
}

/** Rows a second, to the usual, from which on the load is another one ... */
const otherBelow = 0.7
const otherAbove = 1.4
/** ... when {@link agreeing} measurements in a row say so; the usual is that of the first so many. */

/** What a busy model gives while its load is the same. */
class UsualRate {
  #first: number[] = []
  #otherCount = 0

  /** Takes in a measurement; whether the load has become another one. */
  isOther(rowsPerSecond: number): boolean {
    if (this.#first.length < agreeing) {
      this.#first.push(rowsPerSecond)
      return false
    }
    const change = rowsPerSecond / median(this.#first)
    this.#otherCount = change < otherBelow || change > otherAbove ? this.#otherCount + 1 : 0
    return this.#otherCount >= agreeing
  }

  /** What follows does not follow from what was before. */
  interrupt(): void {
    this.#otherCount = 0
  }

  forget(): void {
    this.#first = []
    this.#otherCount = 0
  }
}

const firstPauseMs = 60_000
const longestPauseMs = 3_600_000

/** Pauses of which each is twice as long as the one before, up to an hour. */
class LongerPauses {
  #nextMs = firstPauseMs
  #untilMs = 0

  begin(nowMs: number): void {
    this.#untilMs = nowMs + this.#nextMs
    this.#nextMs = Math.min(longestPauseMs, 2 * this.#nextMs)
  }

  isOver(nowMs: number): boolean {
    return nowMs >= this.#untilMs
  }
}
