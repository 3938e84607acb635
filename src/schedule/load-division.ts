import type { BatchLimits } from '../options/batching.ts'
import { median } from '../base/numbers.ts'
import type { BatchSizer } from './batch-sizer.ts'

/** A load of fewer rows is not divided for one instance: a run of half of them takes hardly less than one of all. */
const leastRows = 24
/** Part of the time that the only instance waits for the application's thread, at least: more than that cannot be gained. */
const leastIdleShare = 0.15
/** With nothing to do for so many times what a run takes, callers have paused: halves cannot make up for much of that. */
const pauseRuns = 10
const leastPauseMs = 20
const mostPauseMs = 500
const leastGain = 1.05
/** Comparisons of a load that count, the last ones; the first ones follow soon after each other, as one may mislead. */
const mostGains = 3
/** What these say holds for so many times what one took, then three times as long each time. */
const firstHoldTimes = 10
const mostHoldTimes = 300
/** Runs in a row that say that the load has become another one; two of long ones that it is one that was seen before. */
const agreeing = 8
/** What lasts so long is long. */
const longMs = 500
/** For so many times what a load took as a whole it is gathered: a request that comes later waits for no other. */
const gatheringTimes = 3
/** Loads are alike of which the smaller has at least this share of the other. */
const similarShare = 0.75

/** Where all batches of a model run: on the application's thread, or on the worker. */
export type Place = 'here' | 'elsewhere'

/** What was found of a load, and of those like it. */
interface Verdict {
  /** By how much parts of it gave more. */
  readonly gains: number[]
  /** How often it was tried, to the end or not. */
  trials: number
  heldUntilMs: number
  /** As a whole, in rows per millisecond. */
  wholeRate: number
}

/**
 * Where all that is under way fits one batch, as with 64 callers in turn and `maxBatchSize: 64`, one instance runs it and others have
 * nothing; and either a run or its answers and the calls that follow from them keep a thread busy, never both. In parts they overlap: one
 * for each instance, and two for the only one. Whether that gives more is tried: a run of half the rows takes more than half the time.
 *
 * Where the place of short runs is chosen, that decides: on the application's thread parts could not overlap, and a load is run as a
 * whole; one that goes to the worker is divided at once, as overlapping is what the worker is for.
 */
export class LoadDivision implements BatchSizer {
  /** Whether a load is divided at present, be it for a trial. A field, as it is asked for each batch; so is the next one. */
  divides = false
  /** Rows of the smallest load that may be divided. */
  leastRows = leastRows
  /** Where runs are at present; `null` where that is not chosen. */
  runPlace: Place | null = null
  readonly #own: BatchLimits
  #limits: BatchLimits
  #instances = 1
  #instancesChanged = false
  #state: 'watching' | 'trying' | 'kept' | 'gathering' = 'watching'
  /** Rows of the whole load, and of a part; and how many of these it has. */
  #load = 0
  #partRows = 0
  #parts = 1
  /** Of what is being compared. */
  readonly #rate = new AttainedRate()
  #idleMs = -0 // times and rates are doubles from the start
  /** Of a load that is watched or gathered. */
  #runs = 0
  #lastRows = 0
  #lastMs = -Infinity
  /** In a row that say that the load is another one. */
  #otherRuns = 0
  /** By the number of instances and the size of the load: those that come and go in turn are not tried each time. */
  readonly #verdicts = new Map<string, Verdict>()
  #verdict = this.#verdictOf(2)
  /** When its comparison began. */
  #beganMs = -Infinity

  /** @param limits of the model. */
  constructor(limits: BatchLimits) {
    this.#own = this.#limits = limits
  }

  /** Whether it may decide about the size of batches: the user has said nothing of it. */
  static suits({
    joinRequests,
    maxBatchSize,
    preferredBatchSizes,
    maxQueueDelayMs,
    cost,
  }: BatchLimits): boolean {
    return (
      joinRequests &&
      maxBatchSize > 1 &&
      preferredBatchSizes.length === 0 &&
      maxQueueDelayMs === 0 &&
      cost === undefined
    )
  }

  limits(): BatchLimits {
    return this.#limits
  }

  /** How many instances the model has. */
  get instances(): number {
    return this.#instances
  }

  set instances(count: number) {
    if (count === this.#instances) return
    this.#instances = count
    this.leastRows = count > 1 ? 2 : leastRows
    if (this.#state === 'watching') this.#load = 0
    else this.#instancesChanged = true
  }

  /**
   * Notes a finished run; true when batches are to have another size from now on.
   *
   * @param requests that it was of.
   * @param others requests that wait besides, and batches that run.
   * @param waitingRows of those in no batch.
   */
  finished(
    rows: number,
    requests: number,
    takenAtMs: number,
    others: number,
    waitingRows: number,
    nowMs: number,
  ): boolean {
    if (this.runPlace === 'here') return this.divides && this.#asWhole()
    const isPlaced = this.runPlace !== null
    const [lastRows, lastMs] = [this.#lastRows, this.#lastMs]
    this.#lastRows = rows
    this.#lastMs = nowMs
    const idleMs = takenAtMs - lastMs
    const isLast = others === 0
    const isAll = isLast && requests > 1
    const paused = idleMs > Math.min(mostPauseMs, Math.max(leastPauseMs, pauseRuns * (nowMs - takenAtMs)))
    if (this.#state === 'watching') {
      const load = isAll && !paused && rows >= this.leastRows ? rows : 0
      return isPlaced ? this.#follow(load) : this.#watch(load, idleMs, nowMs)
    }
    if (isPlaced && this.#state === 'trying') this.#state = 'kept'
    if (this.#state === 'gathering') {
      if (isLast) return this.#asWhole()
      if (++this.#runs < agreeing) return false
      return this.#limits.preferredBatchSizes.length === 0
        ? this.#asWhole()
        : this.#gather(waitingRows + this.#parts * Math.max(rows, lastRows), [], nowMs)
    }
    const isOther = isAll || !isLike(rows + lastRows + waitingRows, 2 * this.#partRows)
    this.#otherRuns = isOther ? this.#otherRuns + 1 : 0
    const isTrial = this.#state !== 'kept'
    if (this.#otherRuns >= agreeing || this.#instancesChanged || (isTrial && paused)) {
      if (isTrial) this.#hold(nowMs, lastMs)
      return isLast || idleMs > 0
        ? this.#asWhole()
        : this.#gather(waitingRows + this.#parts * Math.max(rows, lastRows), [], nowMs)
    }
    const isOver = isTrial
      ? this.#isInVain(rows, nowMs)
      : !isOther && !isPlaced && nowMs >= this.#verdict.heldUntilMs
    if (!isOver) return false
    // Where nothing is left to be gathered, what comes next may be a single request, which waits for no other.
    return isLast ? this.#asWhole() : this.#gather(this.#load, [this.#load], nowMs)
  }

  /** A smaller load than may be divided was run, the last time at `atMs`. To be called while none is divided. */
  passedOver(atMs: number): void {
    this.#lastMs = atMs
    this.#watch(0, 0, atMs)
  }

  /** @param load rows of a load that was one batch; 0 where it was more, or less than is worth it, or callers have paused. */
  #watch(load: number, idleMs: number, nowMs: number): boolean {
    if (load === 0 || load !== this.#load) {
      if (load > 0) this.#verdict = this.#verdictOf(load)
      this.#load = load
      this.#runs = 0
      this.#compares(nowMs)
      return false
    }
    this.#runs++
    if (nowMs < this.#verdict.heldUntilMs) {
      const enoughRuns = Math.max(2, Math.min(agreeing, longMs / (nowMs - this.#rate.sinceMs)))
      this.#compares(nowMs)
      return this.#runs >= enoughRuns && isBetter(this.#verdict) && this.#divide('kept')
    }
    this.#idleMs += idleMs
    const rate = this.#rate.ran(load, 1, nowMs)
    if (rate === null) return false
    this.#beganMs = this.#rate.sinceMs
    const idleShare = this.#idleMs / (nowMs - this.#beganMs)
    this.#compares(nowMs)
    if (this.instances === 1 && idleShare < leastIdleShare) return false
    this.#verdict.wholeRate = rate
    return this.#divide('trying')
  }

  /** A load was one batch on the worker, to which all batches go at present; 0 for none. */
  #follow(load: number): boolean {
    if (load === 0) return false
    this.#load = load
    this.#verdict = this.#verdictOf(load)
    return this.#divide('kept')
  }

  #divide(state: 'trying' | 'kept'): true {
    this.#state = state
    this.divides = true
    this.#partRows = Math.ceil(this.#load / Math.max(2, this.instances))
    this.#parts = Math.ceil(this.#load / this.#partRows)
    this.#limits = { ...this.#own, preferredBatchSizes: [this.#partRows] }
    this.#otherRuns = 0
    return true
  }

  /** Whether a trial has ended, and parts give no more. */
  #isInVain(rows: number, nowMs: number): boolean {
    const rate = this.#rate.ran(rows, this.#parts, nowMs)
    if (rate === null) return false
    const verdict = this.#verdict
    const gain = rate / verdict.wholeRate
    verdict.gains.push(gain)
    if (verdict.gains.length > mostGains) verdict.gains.shift()
    const keeps = isBetter(verdict)
    if (keeps !== gain >= leastGain) verdict.trials = Math.min(verdict.trials, mostGains - 1) // looked at again soon
    this.#hold(nowMs, nowMs)
    if (keeps) this.#state = 'kept'
    return !keeps
  }

  /** @param endMs of what has been compared. */
  #hold(nowMs: number, endMs: number): void {
    const verdict = this.#verdict
    const further = ++verdict.trials - mostGains
    const holdTimes = further < 0 ? 1 : Math.min(mostHoldTimes, firstHoldTimes * 3 ** further)
    verdict.heldUntilMs = nowMs + holdTimes * (endMs - this.#beganMs)
  }

  #verdictOf(load: number): Verdict {
    const key = `${this.instances} ${Math.round(Math.log(load) / -Math.log(similarShare))}`
    let verdict = this.#verdicts.get(key)
    if (verdict === undefined)
      this.#verdicts.set(key, (verdict = { gains: [], trials: 0, heldUntilMs: -0, wholeRate: -0 }))
    return verdict
  }

  /**
   * Left to themselves parts stay parts: while one runs, another waits, and is taken as it is. For once what waits is held
   * back until all have come, for no longer than all of it took as a whole.
   *
   * @param load at most.
   * @param preferredBatchSizes that it has where that is known.
   */
  #gather(load: number, preferredBatchSizes: readonly number[], nowMs: number): true {
    if (this.#verdict.wholeRate === 0) return this.#asWhole() // divided for its place, it was never measured as a whole
    this.#state = 'gathering'
    this.divides = true
    this.#runs = 0
    const maxQueueDelayMs = Math.min(load, this.#own.maxBatchSize) / this.#verdict.wholeRate
    this.#limits = {
      ...this.#own,
      preferredBatchSizes,
      maxQueueDelayMs,
      delayEndsAtMs: nowMs + gatheringTimes * maxQueueDelayMs,
    }
    return true
  }

  #asWhole(): true {
    this.#state = 'watching'
    this.divides = false
    this.#instancesChanged = false
    this.#load = 0
    this.#limits = this.#own
    return true
  }

  #compares(fromMs: number): void {
    this.#idleMs = 0
    this.#rate.begin(fromMs)
  }
}

function isLike(load: number, other: number): boolean {
  return load >= similarShare * other && other >= similarShare * load
}

function isBetter({ gains }: Verdict): boolean {
  return gains.length > 0 && (gains.length === 2 ? Math.min(...gains) : median(gains)) >= leastGain
}

/** A window has the whole load so many times, and lasts so long, at least. */
const leastLoads = 4
const leastMs = 10
const windows = 6
/** Fewer are enough where they last {@link longMs}. */
const leastLongLoads = 2

/**
 * How much is done per millisecond when nothing is in the way: in the second best of six windows, or the best of those that half a
 * second has, at most three, where they last long. What has not been done for long is slow
 * at first, as code is not compiled and threads sleep, and on a shared machine any window may meet something else.
 */
export class AttainedRate {
  readonly #rates: number[] = []
  #runs = 0
  #rows = 0
  #sinceMs = -Infinity
  #windowMs = -Infinity

  /** When it began. */
  get sinceMs(): number {
    return this.#sinceMs
  }

  begin(nowMs: number): void {
    this.#rates.length = this.#runs = this.#rows = 0
    this.#sinceMs = this.#windowMs = nowMs
  }

  /**
   * Notes a finished run.
   *
   * @param parts of the whole load, each of them a run.
   * @returns `null` while there is too little to tell.
   */
  ran(rows: number, parts: number, nowMs: number): number | null {
    this.#rows += rows
    const tookMs = nowMs - this.#windowMs
    const loads = ++this.#runs / parts
    if (loads < (tookMs < longMs ? leastLoads : leastLongLoads) || loads % 1 !== 0 || tookMs < leastMs)
      return null
    this.#rates.push(this.#rows / tookMs)
    this.#runs = this.#rows = 0
    this.#windowMs = nowMs
    if (this.#rates.length < windows && nowMs - this.#sinceMs < longMs) return null
    return this.#rates.sort((one, other) => other - one)[Math.floor(this.#rates.length / 4)]!
  }
}
