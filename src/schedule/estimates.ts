import type { InferRequest } from '../request/infer-request.ts'
import type { ReadyEstimate } from '../request/participants.ts'
import { estimatedAnswerMs } from './answer-estimate.ts'
import { aloneKey, type BatchLimits } from '../options/batching.ts'
import { fullBatchRows } from './buckets.ts'
import { ArrivalRate, BatchCap, type BatchSizer, LatencyTarget } from './batch-sizer.ts'
import { LoadDivision, type Place } from './load-division.ts'

/** Runs after which a latency target looks at its choice of batch size again. */
const reviewEveryRuns = 8

/** What a worker says of when it can start something. */
export interface BusyWorker {
  /** Estimated milliseconds until it is free. */
  readonly freeInMs: number
  /** How many times longer work of this weight takes there because others have work too. */
  sharing(weight: number): number
}

/** A finished run, as far as its times matter. */
export interface TimedRun {
  readonly requests: readonly { readonly bucketKey: string; readonly deadlineAtMs: number | null }[]
  readonly rows: number
  readonly timeline: { readonly takenAtMs: number; readonly startMs: number; readonly inferEndMs: number }
  /** As in `FinishedBatch`. Default false. */
  readonly isUnusual?: boolean
}

/** The model of an {@link Estimator}. */
export interface EstimatedModel {
  readonly limits: BatchLimits
  /** 0 for none. */
  readonly latencyTargetMs: number
  readonly instances: number
  /** Its share of workers relative to others. */
  readonly weight: number
  /** Whether the size of batches is found out while they run. Default false. */
  readonly isCapped?: boolean
  /**
   * Whether a part of a batch is less to do, and requests may wait for each other to see that: not where each has a slot, and
   * empty ones are run too, nor where some have a higher priority. Default true.
   */
  readonly isDivisible?: boolean
}

/** For so long after the first run V8 compiles code: what is compared meanwhile is faster the later it is tried. */
const compilingMs = 500

/** How long a model's requests take: what was seen, and what follows from it for the next ones. */
export class Estimator {
  readonly throughput = new Throughput()
  /** Chooses batch sizes; `null` without a target, or where requests are not joined. */
  readonly target: LatencyTarget | null
  /** Sets the size of batches from outside, while a search tries sizes; `null` without one. */
  readonly cap: BatchCap | null
  /** Divides a load that fits one batch; `null` where something else decides about the size of batches. */
  readonly #division: LoadDivision | null
  readonly runTimes: RunTimes
  /** Rows of a full batch of fixed shapes, if runs are short and have more than others; else 0. */
  rowsOfShortRuns = 0
  readonly #limits: BatchLimits
  readonly #weight: number
  readonly #arrivals = new ArrivalRate()
  #runs = 0
  /** When a run ended that was not to be divided; 0 for none since one that was. */
  #passedOverMs = 0
  /** From when on loads may be divided. */
  #dividesFromMs = 0

  constructor(
    runTimes: RunTimes,
    { limits, latencyTargetMs, instances, weight, isCapped = false, isDivisible = true }: EstimatedModel,
  ) {
    this.runTimes = runTimes
    this.#limits = limits
    this.#weight = weight
    this.target =
      latencyTargetMs > 0 && limits.joinRequests
        ? new LatencyTarget(limits, latencyTargetMs, runTimes, instances)
        : null
    if (latencyTargetMs === 0) runTimes.safetyFactor.beginCarefully()
    this.cap = isCapped && limits.joinRequests ? new BatchCap(limits) : null
    this.#division =
      latencyTargetMs === 0 && !isCapped && isDivisible && LoadDivision.suits(limits)
        ? new LoadDivision(limits)
        : null
    this.instances = instances
  }

  /** `null` where batches have the limits of the model. */
  get sizer(): BatchSizer | null {
    return this.target ?? this.cap ?? this.#division
  }

  /** Whether a load that fits one batch is divided at present. */
  get divides(): boolean {
    return this.#division !== null && this.#division.divides
  }

  /** Whether it may divide loads: the user has said nothing of the size of batches. */
  get mayDivide(): boolean {
    return this.#division !== null
  }

  /** Whether it says how long requests may wait for others: then none is to wait for a turn of the event loop. */
  get hasQueueDelay(): boolean {
    return this.#limits.maxQueueDelayMs > 0
  }

  /** Where all its batches run at present; `null` where that is not chosen. */
  set runPlace(place: Place | null) {
    if (this.#division !== null) this.#division.runPlace = place
  }

  /** How many instances the model has, 1 at least. */
  set instances(count: number) {
    if (this.target !== null) this.target.instances = count
    if (this.#division !== null) this.#division.instances = count
  }

  /** Notes a request, accepted or not. */
  arrived(rows: number, nowMs: number): void {
    if (this.target !== null) this.#arrivals.arrived(rows, nowMs)
  }

  /**
   * Notes a finished batch; true when the limits of its bucket have changed by it, of all without a target.
   *
   * @param others requests that wait besides, and batches that run.
   * @param waitingRows rows of those in no batch.
   */
  observe(
    { requests, rows, timeline, isUnusual = false }: TimedRun,
    others: number,
    waitingRows: number,
    nowMs: number,
  ): boolean {
    const { takenAtMs, startMs, inferEndMs } = timeline
    const { bucketKey } = requests[0]!
    if (!isUnusual) this.runTimes.observe(bucketKey, rows, inferEndMs - startMs, nowMs)
    this.throughput.finished(requests.length, takenAtMs, nowMs)
    this.runTimes.safetyFactor.answered(requests, nowMs)
    const division = this.#division
    if (division !== null) {
      this.#dividesFromMs ||= nowMs + compilingMs
      const isOfNoUse = rows < division.leastRows || rows > this.#limits.maxBatchSize
      const isTooEarly = division.runPlace === null && nowMs < this.#dividesFromMs
      if (!division.divides && (isOfNoUse || isTooEarly || division.runPlace === 'here')) {
        this.#passedOverMs = nowMs
        return false
      }
      if (this.#passedOverMs > 0) division.passedOver(this.#passedOverMs)
      this.#passedOverMs = 0
      return division.finished(rows, requests.length, takenAtMs, others, waitingRows, nowMs)
    }
    return (
      this.target !== null &&
      ++this.#runs % reviewEveryRuns === 0 &&
      this.target.review(bucketKey, this.#arrivals.rowsPerMs(nowMs))
    )
  }

  /** How long after it came a waiting request would be answered at best: when its deadline is hopeless. */
  bestAnswerMs(
    { enqueuedAtMs, bucketKey, rows }: Pick<InferRequest, 'enqueuedAtMs' | 'bucketKey' | 'rows'>,
    nowMs: number,
  ): number {
    return nowMs - enqueuedAtMs + this.runTimes.of(bucketKey).usualMs(rows)
  }

  /**
   * In how many milliseconds a request would be answered that came now; 0 when no run like it was seen, or no instance is left.
   *
   * @param ready when its inputs will be there; left out where they are.
   * @param decides whether the estimate decides about admission. The least time of a run then counts for an idle instance.
   */
  estimatedAnswerMs(
    bucketKey: string,
    rows: number,
    rowsAhead: number,
    instances: readonly { readonly worker: BusyWorker }[],
    nowMs: number,
    ready?: ReadyEstimate,
    decides = true,
  ): number {
    if (instances.length === 0) return 0
    let freeInMs = Infinity
    let sharing = Infinity
    for (const { worker } of instances) {
      freeInMs = Math.min(freeInMs, worker.freeInMs)
      sharing = Math.min(sharing, worker.sharing(this.#weight))
    }
    const alone = bucketKey.startsWith(aloneKey)
    const usualRows = alone ? 1 : fullBatchRows(this.sizer?.limits(bucketKey) ?? this.#limits)
    const batchRows = bucketKey === '' ? Math.max(usualRows, this.rowsOfShortRuns) : usualRows
    const joiningRowsPerMs = this.target === null ? 0 : this.#arrivals.rowsPerMs(nowMs)
    const backlog = {
      rowsAhead,
      batchRows,
      joiningRowsPerMs,
      instances: instances.length,
      freeInMs,
      ready,
      sharing,
      keepsTarget: this.target !== null,
      decidesAtMs: decides ? nowMs : null,
    }
    return estimatedAnswerMs(this.runTimes, bucketKey, rows, backlog)
  }
}

/** Runs of one size that say what is usual for it. */
const sizeWindow = 25
/** How many of them the expectation counts for with which a size starts. */
const expectedRuns = 3
/** Runs of all sizes that say how far they spread ... */
const spreadWindow = 100
/** ... and how fast things go at present. */
const paceWindow = 9
/** Runs of a size until which the fastest says what is usual: the first ones are slow, and none is fast by chance. */
const fewRuns = 5
/** Times as fast or slow as usual from which on it is a change of pace, and not of this size. */
const paceThreshold = 1.25
/** A pace that lasts for so many runs is the usual one. For a slower one they are more: it would refuse requests when it is over. */
const [fasterRuns, slowerRuns] = [100, 1000]
/** Measurements are outdated when nothing has run for this many times the duration of a run. */
export const outdatedTimes = 20
/** Shapes whose runs are remembered; those longest without a run go first. */
const maxBuckets = 128

/**
 * How long a model's runs take, per bucket and batch size. What is usual for a size is the median of its last runs; a
 * size that has not been run lies between its measured neighbours, and above the largest more rows are estimated to take
 * proportionally longer, which they hardly ever exceed. Nothing is ever fitted through a single size.
 *
 * What makes runs slow for a while (a clock rate, a neighbour, a collection of garbage) does so whatever their size. So
 * by how much the last runs of any size differed from what is usual says for all sizes how fast things go at present
 * and how far they spread, and a size that was not run meanwhile is as well known after a slow time as it was before.
 * A pace that lasts becomes the usual one of all sizes: else nothing would keep both from drifting, one up and the other down.
 */
export class RunTimes {
  /** How far admission trusts them. */
  readonly safetyFactor = new SafetyFactor()
  readonly #buckets = new Map<string, BucketRuns>()
  readonly #none = new BucketRuns()
  #lastKey: string | null = null
  #last: BucketRuns | null = null

  /**
   * Notes a run of so many rows.
   *
   * @param nowMs when it ended. Default: 0, for runs during the load, which count as outdated.
   */
  observe(bucketKey: string, rows: number, ms: number, nowMs = 0): void {
    if (bucketKey !== this.#lastKey) {
      const bucket = this.#buckets.get(bucketKey) ?? new BucketRuns()
      // In the order in which they were last run.
      this.#buckets.delete(bucketKey)
      this.#buckets.set(bucketKey, bucket)
      if (this.#buckets.size > maxBuckets) this.#buckets.delete(this.#buckets.keys().next().value!)
      this.#lastKey = bucketKey
      this.#last = bucket
    }
    this.#last!.observe(rows, ms, nowMs)
  }

  /** Whether any run of this bucket has been seen. */
  knows(bucketKey: string): boolean {
    return this.#buckets.has(bucketKey)
  }

  /** Those of one bucket; all times are 0 when no run of it has been seen. */
  of(bucketKey: string): BucketRuns {
    return bucketKey === this.#lastKey ? this.#last! : (this.#buckets.get(bucketKey) ?? this.#none)
  }
}

/** How long runs of one bucket take, in milliseconds. */
export class BucketRuns {
  readonly #bySize = new Map<number, SizeRuns>()
  #lastRows = -1
  #last: SizeRuns | undefined
  /** Sizes that have been run, ascending. */
  #sizes: number[] = []
  #lastAtMs = -Infinity
  /** The rows that were asked about last since a run, and what was said. */
  #usualRows = -1
  #usualMs = 0
  readonly #spread = new Spread()
  readonly #lastRatios = new Recent(paceWindow)
  /** Runs in a row at a slower pace than the usual one; negative for a faster one. */
  #pacedRuns = 0

  observe(rows: number, ms: number, nowMs: number): void {
    const sizes = this.#sizes
    const pace = this.#pace()
    // A run outside of what is known tells nothing of the pace, only of its size.
    const known = sizes.length > 0 && rows >= sizes[0]! && rows <= sizes.at(-1)!
    const usualMs = known ? this.usualMs(rows) : ms / pace
    // And one in a slow time how slow it is rather than what is usual for its size.
    this.#of(rows, known ? usualMs : null).add(ms / pace)
    this.#usualRows = -1
    this.#spread.add(ms, usualMs)
    this.#lastRatios.add(usualMs > 0 ? ms / usualMs : 1)
    this.#lastAtMs = nowMs
    const paced = this.#pacedRuns
    this.#pacedRuns = pace < 1 ? Math.min(0, paced) - 1 : pace > 1 ? Math.max(0, paced) + 1 : 0
    const lasts = this.#pacedRuns <= -fasterRuns || this.#pacedRuns >= slowerRuns
    if (lasts && pace > 0) this.#keepPace(pace, usualMs) // 0 where a clock is coarse
  }

  /** What is known of all sizes is from now on in proportion to this pace. */
  #keepPace(pace: number, usualMs: number): void {
    for (const runs of this.#bySize.values()) runs.transform(pace)
    this.#lastRatios.transform(1 / pace)
    this.#spread.keepPace(pace, usualMs)
  }

  /** What a run of so many rows takes at present. */
  presentMs(rows: number): number {
    return this.usualMs(rows) * this.#pace()
  }

  /**
   * What 99 of 100 runs of so many rows stay below.
   *
   * @param keepsTarget for a latency target, which 99 of 100 are to keep: what delayed short runs is taken for a share of long ones as well.
   */
  p99Ms(rows: number, keepsTarget = false): number {
    return this.#spread.p99Ms(this.usualMs(rows), keepsTarget)
  }

  /**
   * The least time of a run of so many rows: 0 if only a few runs or outdated ones are known. For fewer rows than were ever run it is in
   * proportion. A refused request runs nothing, so a wrong guess would never be corrected.
   *
   * @param batchRows rows of the batch that it would be part of.
   */
  leastMs(rows: number, nowMs: number, batchRows = rows): number {
    const [smallest = 0] = this.#sizes
    const usualMs = this.usualMs(rows) * Math.min(1, this.#pace())
    if (nowMs - this.#lastAtMs > outdatedTimes * usualMs) return 0
    if (this.#ofSize(this.#sizes.findLast((size) => size <= rows) ?? smallest)!.isHardlyKnown) return 0
    return usualMs * Math.min(1, Math.max(rows, batchRows) / smallest)
  }

  /** What a run of so many rows usually takes, slow times left out. */
  usualMs(rows: number): number {
    if (rows === this.#usualRows) return this.#usualMs
    this.#usualMs = this.#findUsualMs(rows)
    this.#usualRows = rows
    return this.#usualMs
  }

  #findUsualMs(rows: number): number {
    const measured = this.#ofSize(rows)
    if (measured !== undefined) return measured.isHardlyKnown ? this.#boundMs(rows) : measured.quantile(0.5)
    const sizes = this.#sizes
    if (sizes.length === 0) return 0
    let above = 0
    while (above < sizes.length && sizes[above]! < rows) above++
    if (above === 0) return this.usualMs(sizes[0]!)
    const below = sizes[above - 1]!
    const belowMs = this.usualMs(below)
    if (above === sizes.length)
      return this.#ofSize(below)!.isHardlyKnown
        ? Math.max(belowMs, this.#boundMs(rows))
        : (belowMs * rows) / Math.max(1, below)
    const share = (rows - below) / (sizes[above]! - below)
    return belowMs + share * (this.usualMs(sizes[above]!) - belowMs)
  }

  #ofSize(rows: number): SizeRuns | undefined {
    if (rows !== this.#lastRows) {
      this.#lastRows = rows
      this.#last = this.#bySize.get(rows)
    }
    return this.#last
  }

  /** What a run of a size that is hardly known takes at most, as far as fewer rows tell: its fastest, or proportionally as long as they. */
  #boundMs(rows: number): number {
    let msPerRow = Infinity
    for (const size of this.#sizes) {
      if (size > rows) break
      const measured = this.#bySize.get(size)!
      const ms = measured.isHardlyKnown
        ? Math.min(measured.quantile(0), size * msPerRow)
        : measured.quantile(0.5)
      if (size === rows) return ms
      msPerRow = Math.min(msPerRow, ms / Math.max(1, size))
    }
    return rows * msPerRow
  }

  /** Times as long as usual that runs take at present; a few say nothing. */
  #pace(): number {
    const pace = this.#lastRatios.count < paceWindow ? 1 : this.#lastRatios.quantile(0.5)
    return pace > paceThreshold || pace < 1 / paceThreshold ? pace : 1
  }

  /** Those of a size; what its neighbours let expect of a new one counts as some runs, so that a single one by chance fast or slow changes nothing. */
  #of(rows: number, expectedMs: number | null): SizeRuns {
    const known = this.#ofSize(rows)
    if (known !== undefined) return known
    const runs = new SizeRuns(expectedMs === null)
    if (expectedMs !== null) for (let run = 0; run < expectedRuns; run++) runs.add(expectedMs)
    this.#bySize.set(rows, (this.#last = runs))
    this.#sizes = [...this.#sizes, rows].sort((a, b) => a - b)
    return runs
  }
}

/** Share of the admitted requests that may be late: a little less than one of 100. */
const lateShare = 0.0075
/** By how much one batch that is late as a whole raises the factor; one that is in time lowers it by so much less. */
const factorStep = 0.1
const smallestFactor = 0.5
const largestFactor = 4
/**
 * The first factor of a model without a latency target. The first late answer comes a whole deadline after its request; with a small
 * factor, a whole queue would have been admitted too optimistically by then.
 */
const carefulFactor = 3
/** What each batch that is in time takes off it, until it is 1 or an answer is late. */
const carefulStep = 0.01

/**
 * How much of what runs spread by admission keeps free. No estimate is exact: how runs differ depends on what else the
 * machine does, and one that starts late makes all behind it late. So it is learned from the outcome, as a quantile is
 * by stochastic approximation (Robbins and Monro, 1951): every late request raises the factor and every one in time
 * lowers it a little, so that it stays where about `lateShare` of a batch are late on average, whatever the reason.
 */
export class SafetyFactor {
  /** Times the spread that is kept free. */
  factor = 1
  #dropped = 0
  #isCareful = false

  /** Begins with {@link carefulFactor}, for a model without a latency target. */
  beginCarefully(): void {
    this.factor = carefulFactor
    this.#isCareful = true
  }

  /**
   * The margin for an answer that is expected in `expectedMs`, in milliseconds. A careful beginning adds at most `expectedMs`, as one
   * slow run among few makes the spread large.
   */
  reserveMs(spreadMs: number, expectedMs: number): number {
    const reserveMs = this.factor * spreadMs
    return this.#isCareful ? Math.min(reserveMs, Math.max(spreadMs, expectedMs)) : reserveMs
  }

  /** Notes an admitted request that was dropped from the queue, as its deadline could no longer be met. */
  dropped(): void {
    this.#dropped++
  }

  /** Notes the requests of a batch that is done. */
  answered(requests: readonly { readonly deadlineAtMs: number | null }[], nowMs: number): void {
    let [admitted, late] = [this.#dropped, this.#dropped]
    this.#dropped = 0
    for (const { deadlineAtMs } of requests) {
      if (deadlineAtMs === null) continue
      admitted++
      if (nowMs > deadlineAtMs) late++
    }
    if (admitted === 0) return
    this.#isCareful &&= late === 0 && this.factor > 1
    if (this.#isCareful) {
      this.factor *= 1 - carefulStep
      return
    }
    const share = late / admitted
    this.factor = Math.min(
      largestFactor,
      Math.max(smallestFactor, this.factor * (1 + factorStep * (share - lateShare))),
    )
  }
}

/** How far the last runs, or the last decodings, spread around what is usual for their size. */
export class Spread {
  /** How many times as long as usual for their size they took. */
  readonly #ratios = new Recent(spreadWindow)
  /** By how much longer, to the root of what is usual: what comes between (a collection of garbage, another thread) is no longer for a long run. */
  readonly #delays = new Recent(spreadWindow)
  add(ms: number, usualMs: number): void {
    this.#ratios.add(usualMs > 0 ? ms / usualMs : 1)
    this.#delays.add(usualMs > 0 ? (ms - usualMs) / Math.sqrt(usualMs) : 0)
  }

  /** From now on `pace` times as long is usual; `usualMs` is what was usual for the size that is run. */
  keepPace(pace: number, usualMs: number): void {
    this.#ratios.transform(1 / pace)
    this.#delays.transform(1 / Math.sqrt(pace), ((1 - pace) * Math.sqrt(usualMs)) / Math.sqrt(pace))
  }

  /**
   * What 99 of 100 stay below that usually take `usualMs`.
   *
   * @param isProportional whether a delay grows in proportion to the duration, and not with its root. Default: false.
   */
  p99Ms(usualMs: number, isProportional = false): number {
    const { count } = this.#ratios
    if (count < paceWindow) return usualMs
    // The longest of few is not one of 100.
    const q = count < spreadWindow ? (count - 1) / count : 0.99
    const inProportionMs = usualMs * this.#ratios.quantile(q)
    return isProportional
      ? inProportionMs
      : Math.min(inProportionMs, usualMs + Math.sqrt(usualMs) * Math.max(0, this.#delays.quantile(q)))
  }
}

/** With more new values than this, the whole window is sorted again. */
const mostUnsorted = 8

/** A window of the latest values. `quantile` sorts them, not `add`. */
export class Recent {
  readonly #ring: Float64Array
  readonly #sorted: Float64Array
  /** How many there are. */
  count = 0
  #next = 0
  /** Values that are not in order yet, and which they took the place of. */
  #unsorted = 0
  readonly #replaced = new Float64Array(mostUnsorted)

  constructor(window: number) {
    this.#ring = new Float64Array(window)
    this.#sorted = new Float64Array(window)
  }

  add(value: number): void {
    const ring = this.#ring
    const next = this.#next
    if (this.count < ring.length) {
      this.count++
      this.#unsorted = Infinity
    } else {
      if (this.#unsorted < mostUnsorted) this.#replaced[this.#unsorted] = ring[next]!
      this.#unsorted++
    }
    ring[next] = value
    this.#next = next + 1 === ring.length ? 0 : next + 1
  }

  /** Multiplies all by `factor`, which is positive, and adds `term`: their order stays. */
  transform(factor: number, term = 0): void {
    for (const values of [this.#ring, this.#sorted, this.#replaced])
      for (let at = 0; at < values.length; at++) values[at] = values[at]! * factor + term
  }

  /** Nearest-rank quantile. */
  quantile(q: number): number {
    if (this.#unsorted > 0) this.#sort()
    return this.#sorted[Math.max(0, Math.ceil(q * this.count) - 1)]!
  }

  #sort(): void {
    const [ring, unsorted] = [this.#ring, this.#unsorted]
    this.#unsorted = 0
    if (unsorted > Math.min(mostUnsorted, ring.length)) {
      this.#sorted.set(ring)
      this.#sorted.subarray(0, this.count).sort()
      return
    }
    let at = this.#next - unsorted
    if (at < 0) at += ring.length
    for (let index = 0; index < unsorted; index++) {
      this.#replace(this.#replaced[index]!, ring[at]!)
      at = at + 1 === ring.length ? 0 : at + 1
    }
  }

  /** Those between the place that becomes free and the new one's move by one. A loop: a few moves take less than a call of a method. */
  #replace(gone: number, value: number): void {
    const sorted = this.#sorted
    const last = sorted.length - 1
    let at = this.#find(gone)
    for (; at < last && sorted[at + 1]! < value; at++) sorted[at] = sorted[at + 1]!
    for (; at > 0 && sorted[at - 1]! > value; at--) sorted[at] = sorted[at - 1]!
    sorted[at] = value
  }

  #find(value: number): number {
    let low = 0
    let high = this.count
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#sorted[middle]! < value) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The last runs of one size. */
class SizeRuns extends Recent {
  readonly #isUnforeseen: boolean

  /** @param isUnforeseen whether nothing was expected of it before it was run. */
  constructor(isUnforeseen: boolean) {
    super(sizeWindow)
    this.#isUnforeseen = isUnforeseen
  }

  /** Whether it was run seldom, and nothing else says what is usual for it. */
  get isHardlyKnown(): boolean {
    return this.#isUnforeseen && this.count < fewRuns
  }
}

/** How much older requests count: each finished batch leaves this share of what was before it. */
const keptShare = 0.9

/**
 * How fast requests are worked off while there is work, from the last batches. The time of a batch is counted from the
 * end of the one before it, or from its own start when nothing ran before: so several instances and shared workers count
 * as they are.
 */
export class Throughput {
  #requests = 0
  #ms = 0
  #lastMs = -Infinity

  /** Notes a finished batch. */
  finished(requests: number, startedAtMs: number, nowMs: number): void {
    this.#requests = this.#requests * keptShare + requests
    this.#ms = this.#ms * keptShare + Math.max(0, nowMs - Math.max(this.#lastMs, startedAtMs))
    this.#lastMs = nowMs
  }

  /** Milliseconds per request; 0 before the first batch. */
  get msPerRequest(): number {
    return this.#requests === 0 ? 0 : this.#ms / this.#requests
  }
}
