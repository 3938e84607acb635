import { batchReasons, type BatchReason } from '../options/batching.ts'
import type { Clock } from '../base/clock.ts'
import {
  durationOf,
  noLeases,
  type BatchStatistics,
  type EventLoopDelayStatistics,
  type LatencyBucket,
  type LatencyDistribution,
  type ModelStatistics,
  type ResponseTotals,
} from './model-statistics.ts'
import {
  noneOf,
  refusalOf,
  refusalReasons,
  rejectionReasons,
  type RefusalReason,
  type RejectionReason,
} from './rejections.ts'

// Counts what model-statistics.ts describes.

/** Times of one finished batch, in milliseconds. */
export interface BatchTimes {
  readonly inputMs: number
  readonly inferMs: number
  readonly outputMs: number
}

/** The times of runs some of which took place at once, shortened alike to what there was of time. */
export function within(limitMs: number, { inputMs, inferMs, outputMs }: BatchTimes): BatchTimes {
  const scale = Math.min(1, limitMs / (inputMs + inferMs + outputMs || 1))
  return { inputMs: inputMs * scale, inferMs: inferMs * scale, outputMs: outputMs * scale }
}

interface BatchTotals {
  count: number
  inputMs: number
  inferMs: number
  outputMs: number
}

/** Keeps a model's statistics: a few additions per batch and per request, cheap enough to be always on. */
export class ModelCounts {
  readonly #batches: BatchTotals[] = [] // by rows
  readonly #largeBatches = new Map<number, BatchTotals>()
  #lastInferenceMs = 0
  #rows = 0
  #executions = 0
  #inline = 0
  #successes = 0
  #successMs = 0
  #overheadNs = 0
  #failures = 0
  #failMs = 0
  #queueMs = 0
  #inputMs = 0
  #inferMs = 0
  #outputMs = 0
  readonly #queueLatency = new LatencyHistogram()
  readonly #computeLatency = new LatencyHistogram()
  readonly #totalLatency = new LatencyHistogram()
  #withoutRun = 0
  #decodes = 0
  #decodeMs = 0
  #reruns = 0
  #ownElements = 0
  #paddedElements = 0
  /** From the call of `load` to when it served. */
  loadMs = 0
  readonly #rejections = noneOf<RejectionReason>(rejectionReasons)
  readonly #refusals = noneOf<RefusalReason>(refusalReasons)
  readonly #reasons = noneOf<BatchReason>(batchReasons)

  /** Counts a run whose requests are about to be answered. */
  ran(rows: number, { inputMs, inferMs, outputMs }: BatchTimes, inline: boolean, emptyRows = 0): void {
    this.#lastInferenceMs = Date.now()
    this.#rows += rows - emptyRows
    this.#executions++
    if (inline) this.#inline++
    const totals = rows <= exactUpTo ? (this.#batches[rows] ??= noTotals()) : this.#large(rows)
    totals.count++
    totals.inputMs += inputMs
    totals.inferMs += inferMs
    totals.outputMs += outputMs
  }

  /**
   * Counts requests that are about to be answered together.
   *
   * @param enqueuedAtMs when each was accepted.
   * @param begunAtMs when they had waited.
   */
  waited(enqueuedAtMs: readonly number[], begunAtMs: number, doneAtMs: number): void {
    const count = enqueuedAtMs.length
    let sumMs = 0
    for (let index = 0; index < count; index++) sumMs += enqueuedAtMs[index]!
    this.#successes += count
    this.#successMs += count * doneAtMs - sumMs
    this.#queueMs += count * begunAtMs - sumMs
    this.#queueLatency.recordSince(enqueuedAtMs, begunAtMs)
    this.#totalLatency.recordSince(enqueuedAtMs, doneAtMs)
  }

  /** Counts what the runs of requests took that are about to be answered; the times are those of each. */
  computed(requests: number, { inputMs, inferMs, outputMs }: BatchTimes): void {
    if (requests === 0) return
    this.#inputMs += requests * inputMs
    this.#inferMs += requests * inferMs
    this.#outputMs += requests * outputMs
    this.#computeLatency.record(inputMs + inferMs + outputMs, requests)
  }

  /** Counts one request that is about to be answered by runs, of some of which it may have seen the end alone. */
  answered(enqueuedAtMs: number, begunAtMs: number, times: BatchTimes, doneAtMs: number): void {
    const sinceMs = Math.max(enqueuedAtMs, begunAtMs)
    this.waited([enqueuedAtMs], sinceMs, doneAtMs)
    this.computed(1, within(doneAtMs - sinceMs, times))
  }

  /** Counts a request that is about to be answered with what the run of an equal one gave. */
  answeredWithoutRun(enqueuedAtMs: number, begunAtMs: number, doneAtMs: number): void {
    this.#lastInferenceMs = Date.now()
    this.#withoutRun++
    this.waited([enqueuedAtMs], begunAtMs, doneAtMs)
  }

  /** Counts a run that is over, however it ended, by the reason for which its batch was closed; a rerun as such. */
  closed(reason: BatchReason, isRerun: boolean): void {
    if (isRerun) this.#reruns++
    else this.#reasons[reason]++
  }

  /** Counts what padding added to a batch. */
  padded(ownElements: number, paddedElements: number): void {
    this.#ownElements += ownElements
    this.#paddedElements += paddedElements
  }

  /** Counts a request that is rejected `ms` after it was accepted. */
  failed(why: RejectionReason, ms: number): void {
    this.#rejections[why]++
    this.#failures++
    this.#failMs += ms
  }

  /** Counts a request that is refused before it is accepted. */
  refused(why: RefusalReason): void {
    this.#refusals[why]++
  }

  /** Counts a call that failed before it became a request, and rejects with its error. */
  refuse(error: unknown, signal?: AbortSignal): Promise<never> {
    this.refused(refusalOf(error, signal))
    return Promise.reject(error)
  }

  /** Counts a call as refused if `read`, which reads its feeds, throws. */
  reading<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      this.refused(refusalOf(error, undefined))
      throw error
    }
  }

  /** Requests so far that found no place, or no time. */
  get overloadCount(): number {
    const { queueFull, timeout, deadline } = this.#rejections
    return queueFull + timeout + deadline + this.#refusals.timeout + this.#refusals.deadline
  }

  /** Counts a request whose images were decoded in so long. */
  decoded(ms: number): void {
    this.#decodes++
    this.#decodeMs += ms
  }

  /** Rows and runs so far. */
  get done() {
    return { rows: this.#rows, runs: this.#executions }
  }

  snapshot(
    pendingRequestCount: number,
    arena: ModelStatistics['arena'] = null,
    responses: ResponseTotals | null = null,
    { instances, leases, autoTune }: ServingStatistics = servesNothing,
  ): ModelStatistics {
    const count = this.#successes
    const computed = count - this.#withoutRun
    const [own, padded] = [this.#ownElements, this.#paddedElements]
    const parts = {
      queue: durationOf(count, this.#queueMs),
      computeInput: durationOf(computed, this.#inputMs),
      computeInfer: durationOf(computed, this.#inferMs),
      computeOutput: durationOf(computed, this.#outputMs),
    }
    const partsNs = parts.queue.ns + parts.computeInput.ns + parts.computeInfer.ns + parts.computeOutput.ns
    // It never goes back by itself; sums of many do, by what rounding leaves of them, and to Prometheus that were a start anew.
    this.#overheadNs = Math.max(this.#overheadNs, durationOf(count, this.#successMs).ns - partsNs)
    const overhead = { count, ns: this.#overheadNs }
    return {
      lastInferenceMs: this.#lastInferenceMs,
      inferenceCount: this.#rows,
      executionCount: this.#executions,
      inlineCount: this.#inline,
      inferenceStats: {
        success: { count, ns: overhead.ns + partsNs },
        fail: durationOf(this.#failures, this.#failMs),
        overhead,
        ...parts,
        cacheHit: durationOf(responses?.counts.hits ?? 0, responses?.hitMs ?? 0),
        cacheMiss: durationOf(responses?.counts.misses ?? 0, responses?.missMs ?? 0),
        imageDecode: durationOf(this.#decodes, this.#decodeMs),
      },
      batchStats: this.#batchStats(),
      latency: {
        queue: this.#queueLatency.distribution(),
        compute: this.#computeLatency.distribution(),
        total: this.#totalLatency.distribution(),
      },
      instanceCount: instances.length,
      instances,
      loadMs: this.loadMs,
      pendingRequestCount,
      rejections: { ...this.#rejections },
      refusals: { ...this.#refusals },
      batchReasons: { ...this.#reasons },
      rerunCount: this.#reruns,
      padding: { ownElements: own, paddedElements: padded, wasteShare: padded === 0 ? 0 : 1 - own / padded },
      arena,
      responseCache: responses?.counts ?? null,
      leases,
      autoTune,
    }
  }

  #batchStats(): BatchStatistics[] {
    const found: BatchStatistics[] = []
    this.#batches.forEach((totals, batchSize) => found.push(statisticsOf(batchSize, totals))) // which passes over sizes that there are not
    for (const [batchSize, totals] of [...this.#largeBatches].sort(([a], [b]) => a - b))
      found.push(statisticsOf(batchSize, totals))
    return found
  }

  #large(rows: number): BatchTotals {
    // Any number of different ones takes little memory: they are counted as the largest of 64 sizes to a power of two.
    const step = 2 ** (Math.floor(Math.log2(rows - 1)) - 6)
    const size = Math.ceil(rows / step) * step
    let totals = this.#largeBatches.get(size)
    if (totals === undefined) this.#largeBatches.set(size, (totals = noTotals()))
    return totals
  }
}

/** What a snapshot has of what serves. */
type ServingStatistics = Pick<ModelStatistics, 'instances' | 'leases' | 'autoTune'>

const servesNothing: ServingStatistics = { instances: [], leases: noLeases, autoTune: null }

/** Batches of so many rows are counted each by itself. */
const exactUpTo = 4096

function noTotals(): BatchTotals {
  return { count: 0, inputMs: 0, inferMs: 0, outputMs: 0 }
}

function statisticsOf(
  batchSize: number,
  { count, inputMs, inferMs, outputMs }: BatchTotals,
): BatchStatistics {
  return {
    batchSize,
    computeInput: durationOf(count, inputMs),
    computeInfer: durationOf(count, inferMs),
    computeOutput: durationOf(count, outputMs),
  }
}

/** Bits of a number's fraction that choose its bucket: 64 buckets between a power of two and the next. */
const fractionBits = 6
const shift = 23 - fractionBits
/** Of 2^-10 ms: what is shorter than a microsecond counts as one. */
const firstWord = (127 - 10) << fractionBits
/** As far as 2^22 ms, more than an hour. */
const buckets = 32 << fractionBits

/** Of the percentiles, ascending. */
const shares = [0.5, 0.9, 0.95, 0.99, 0.999]

const scratch = new Float32Array(1)
const word = new Uint32Array(scratch.buffer)

/**
 * How often which latency was seen, in 16 KiB whatever comes. Every request passes here on the application's thread, so
 * it is not Node's own histogram, whose `record` costs 25 ns and not 4: the leading bits of a float are the number of its
 * bucket already.
 */
export class LatencyHistogram {
  // Not 32 bits: at half a million requests a second those are full within hours.
  readonly #counts = new Float64Array(buckets)
  #count = 0
  #maxMs = 0

  /** Notes how long before `endMs` each of `startsMs` was. One call for many: handing a number over costs more than noting it. */
  recordSince(startsMs: readonly number[], endMs: number): void {
    for (let index = 0; index < startsMs.length; index++) this.record(endMs - startsMs[index]!)
  }

  /** Notes `times` times a latency. */
  record(ms: number, times = 1): void {
    scratch[0] = ms
    const index = ms > 0 ? (word[0]! >>> shift) - firstWord : 0
    this.#counts[Math.max(0, Math.min(buckets - 1, index))]! += times
    this.#count += times
    if (ms > this.#maxMs) this.#maxMs = ms
  }

  /** All 0 before the first record. One pass, because it is read again and again, for many models. */
  distribution(): LatencyDistribution {
    const counts = this.#counts
    const found: LatencyBucket[] = []
    const quantilesMs = [0, 0, 0, 0, 0]
    let seen = 0
    let next = 0
    for (let index = 0; index < buckets; index++) {
      const count = counts[index]!
      if (count === 0) continue
      found.push({ upToMs: boundMs(index + 1), count })
      seen += count
      while (next < shares.length && seen >= this.#count * shares[next]!)
        quantilesMs[next++] = Math.min(this.#maxMs, middleMs(index))
    }
    const [p50Ms, p90Ms, p95Ms, p99Ms, p999Ms] = quantilesMs as [number, number, number, number, number]
    return { count: this.#count, p50Ms, p90Ms, p99Ms, maxMs: this.#maxMs, p95Ms, p999Ms, buckets: found }
  }
}

/** The middle of a bucket. */
function middleMs(index: number): number {
  word[0] = ((firstWord + index) << shift) + (1 << (shift - 1))
  return scratch[0]!
}

/** The lower bound of a bucket. The first bucket also has everything shorter, the last everything longer. */
function boundMs(index: number): number {
  word[0] = (firstWord + index) << shift
  return scratch[0]!
}

/**
 * Milliseconds of a timer. Each wake-up takes a core from a run that uses all of them: at 5 ms, SqueezeNet's throughput was
 * 2 % lower.
 */
const intervalMs = 20

/**
 * Measures how late timers are. A timer that is 100 ms late counts as five: itself, and four that could not be set meanwhile,
 * each with the delay it would have had. So a stall counts for as long as it lasts.
 */
export class LateTimers {
  readonly #clock: Clock
  readonly #note: (lateMs: number) => void
  readonly #goesOn: () => boolean
  #timer: unknown = null
  #dueMs = 0

  /**
   * @param note called with each delay.
   * @param goesOn asked after each timer whether to set another. Default: always.
   */
  constructor(clock: Clock, note: (lateMs: number) => void, goesOn = () => true) {
    this.#clock = clock
    this.#note = note
    this.#goesOn = goesOn
  }

  /** Sets the first timer, unless one is set. */
  start(): void {
    if (this.#timer === null) this.#set()
  }

  stop(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
  }

  #set(): void {
    this.#dueMs = this.#clock.nowMs() + intervalMs
    this.#timer = this.#clock.setTimer(this.#look, intervalMs)
  }

  readonly #look = (): void => {
    const lateMs = Math.max(0, this.#clock.nowMs() - this.#dueMs)
    this.#note(lateMs)
    for (let leftMs = lateMs - intervalMs; leftMs > 0; leftMs -= intervalMs) this.#note(leftMs)
    this.#timer = null
    if (this.#goesOn()) this.#set()
  }
}

/** How late timers of the application's thread are while an engine has something in flight. An idle engine sets none. */
export class EventLoopDelay {
  readonly #timers: LateTimers
  #delays: LatencyHistogram | null = null
  #sumMs = 0

  /** @param busy whether anything is in flight. */
  constructor(clock: Clock, busy: { readonly held: boolean }) {
    const note = (lateMs: number) => {
      this.#delays ??= new LatencyHistogram()
      this.#delays.record(lateMs)
      this.#sumMs += lateMs
    }
    this.#timers = new LateTimers(clock, note, () => busy.held)
  }

  /** Something is in flight from now on. */
  readonly begin = (): void => this.#timers.start()

  /** All 0 until something was in flight for long enough. */
  get statistics(): EventLoopDelayStatistics {
    return { ...(this.#delays ?? new LatencyHistogram()).distribution(), sumMs: this.#sumMs }
  }
}
