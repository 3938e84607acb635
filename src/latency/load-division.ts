import type { BatchLimits } from '../config/batching.ts'
import { median } from '../median.ts'
import { AttainedRate } from './attained-rate.ts'
import type { BatchSizer } from './batch-cap.ts'

/** A load of fewer rows is not divided for one instance: a run of half of them takes hardly less than one of all. */
const leastRows = 24
/** Part of the time that the only instance waits for the application's thread, at least: more than that cannot be gained. */
const leastIdleShare = 0.15
/** What takes longer from one batch to the next is a pause. */
const pauseMs = 500
const leastGain = 1.05
/** Comparisons of a load that count, the last ones; the first ones follow soon after each other, as one may mislead. */
const mostGains = 3
/** What these say holds for so many times what one took, then three times as long each time. */
const firstHoldTimes = 10
const mostHoldTimes = 300
/** Runs in a row that say that the load has become another one. */
const agreeing = 8
/** Loads are alike of which the smaller has at least this share of the other. */
const similarShare = 0.75

/** What was found of a load, and of those like it. */
interface Verdict {
  /** By how much parts of it gave more. */
  readonly gains: number[]
  /** How often it was tried, to the end or not. */
  trials: number
  heldUntilMs: number
}

/**
 * Where all that is under way fits one batch, as with 64 callers in turn and `maxBatchSize: 64`, one instance runs it and others have
 * nothing; and either a run or its answers and the calls that follow from them keep a thread busy, never both. In parts they overlap: one
 * for each instance, and two for the only one. Whether that gives more is tried: a run of half the rows takes more than half the time.
 */
export class LoadDivision implements BatchSizer {
  /** How many instances the model has. */
  instances = 1
  readonly #own: BatchLimits
  #limits: BatchLimits
  #state: 'watching' | 'trying' | 'kept' | 'gathering' = 'watching'
  /** Rows of the whole load, and what it gave in one batch, in rows per millisecond; and rows of a part. */
  #load = 0
  #wholeRate = 0
  #partRows = 0
  /** Of what is being compared. */
  readonly #rate = new AttainedRate()
  #idleMs = 0
  /** Of those that are waited for, in vain. */
  #runs = 0
  #lastRows = 0
  #lastMs = 0
  /** In a row that say that the load is another one. */
  #otherRuns = 0
  /** By the size of the load: those that come and go in turn are not tried each time. */
  readonly #verdicts = new Map<number, Verdict>()
  #verdict: Verdict = newVerdict()
  /** When its comparison began. */
  #beganMs = 0

  /** @param limits of the model. */
  constructor(limits: BatchLimits) {
    this.#own = this.#limits = limits
  }

  /** Whether it may decide about the size of batches: nobody else has said anything of it. */
  static suits({ joinRequests, maxBatchSize, preferredBatchSizes, maxQueueDelayMs, cost }: BatchLimits): boolean {
    return joinRequests && maxBatchSize > 1 && preferredBatchSizes.length === 0 && maxQueueDelayMs === 0 && cost === undefined
  }

  /** Whether it does so at present, be it for a trial. */
  get divides(): boolean {
    return this.#state !== 'watching'
  }

  limits(): BatchLimits {
    return this.#limits
  }

  /**
   * Notes a finished run; true when batches are to have another size from now on.
   *
   * @param isAll whether nothing else of the model waits or runs, and it is of several requests.
   * @param waitingRows of those in no batch.
   */
  finished(rows: number, takenAtMs: number, isAll: boolean, waitingRows: number, nowMs: number): boolean {
    const [lastRows, lastMs] = [this.#lastRows, this.#lastMs]
    this.#lastRows = rows
    this.#lastMs = nowMs
    if (this.#state === 'watching') return this.#watch(isAll && rows >= (this.instances > 1 ? 2 : leastRows) ? rows : 0, takenAtMs - lastMs, nowMs)
    if (this.#state === 'gathering') return (isAll || ++this.#runs >= agreeing) && this.#asWhole()
    const isOther = isAll || !isLike(rows + lastRows + waitingRows, 2 * this.#partRows)
    this.#otherRuns = isOther ? this.#otherRuns + 1 : 0
    if (this.#otherRuns >= agreeing) {
      if (this.#state !== 'kept') this.#hold(nowMs)
      return this.#asWhole()
    }
    return this.#state === 'kept' ? nowMs >= this.#verdict.heldUntilMs && this.#gather(nowMs) : this.#compare(rows, nowMs)
  }

  /** @param load rows of a load that was one batch; 0 where it was more, or less than is worth it. */
  #watch(load: number, idleMs: number, nowMs: number): boolean {
    if (load === 0 || load !== this.#load || idleMs > pauseMs || nowMs < this.#verdict.heldUntilMs) {
      if (load !== this.#load && load > 0) this.#verdict = this.#verdictOf(load)
      this.#load = load
      this.#begin(nowMs)
      return false
    }
    this.#idleMs += idleMs
    const rate = this.#rate.ran(load, 1, nowMs)
    if (rate === null) return false
    this.#beganMs = this.#rate.sinceMs
    const idleShare = this.#idleMs / (nowMs - this.#beganMs)
    this.#begin(nowMs)
    if (this.instances === 1 && idleShare < leastIdleShare) return false
    this.#wholeRate = rate
    this.#partRows = Math.ceil(load / Math.max(2, this.instances))
    this.#limits = { ...this.#own, preferredBatchSizes: [this.#partRows] }
    this.#state = 'trying'
    this.#otherRuns = 0
    return true
  }

  #compare(rows: number, nowMs: number): boolean {
    const rate = this.#rate.ran(rows, this.instances, nowMs)
    if (rate === null) return false
    const gain = rate / this.#wholeRate
    const verdict = this.#verdict
    verdict.gains.push(gain)
    if (verdict.gains.length > mostGains) verdict.gains.shift()
    const isBetter = median(verdict.gains) >= leastGain
    if (isBetter !== gain >= leastGain) verdict.trials = Math.min(verdict.trials, mostGains - 1) // looked at again soon
    this.#hold(nowMs)
    if (isBetter) this.#state = 'kept'
    return !isBetter && this.#gather(nowMs)
  }

  #hold(nowMs: number): void {
    const verdict = this.#verdict
    const further = ++verdict.trials - mostGains
    const holdTimes = further < 0 ? 1 : Math.min(mostHoldTimes, firstHoldTimes * 3 ** further)
    verdict.heldUntilMs = nowMs + holdTimes * (nowMs - this.#beganMs)
  }

  #verdictOf(load: number): Verdict {
    const size = Math.round(Math.log(load) / -Math.log(similarShare))
    let verdict = this.#verdicts.get(size)
    if (verdict === undefined) this.#verdicts.set(size, (verdict = newVerdict()))
    return verdict
  }

  /**
   * Left to themselves parts stay parts: while one runs, another waits, and is taken as it is. For once what waits is held
   * back until all have come, for no longer than all of it took as a whole.
   */
  #gather(nowMs: number): true {
    this.#state = 'gathering'
    this.#begin(nowMs)
    this.#limits = { ...this.#own, preferredBatchSizes: [this.#load], maxQueueDelayMs: this.#load / this.#wholeRate }
    return true
  }

  #asWhole(): true {
    this.#state = 'watching'
    this.#load = 0
    this.#limits = this.#own
    return true
  }

  #begin(nowMs: number): void {
    this.#runs = this.#idleMs = 0
    this.#rate.begin(nowMs)
  }
}

function isLike(load: number, other: number): boolean {
  return load >= similarShare * other && other >= similarShare * load
}

function newVerdict(): Verdict {
  return { gains: [], trials: 0, heldUntilMs: 0 }
}
