import type { Clock } from '../base/clock.ts'

/** Latencies of requests since the model was loaded, in milliseconds; each within 1 % of what was measured. */
export interface LatencyPercentiles {
  /** How many there were. */
  readonly count: number
  /** Half of them took no longer. */
  readonly p50Ms: number
  /** 90 % of them took no longer. */
  readonly p90Ms: number
  /** 99 % of them took no longer. */
  readonly p99Ms: number
  /** The longest, exactly. */
  readonly maxMs: number
}

/** How often a latency was seen that is less than `upToMs`, and not less than the bound of the bucket before. */
export interface LatencyBucket {
  /** The bound, which is not in it. */
  readonly upToMs: number
  readonly count: number
}

/** The same with all that was counted: {@link LatencyBucket.count} of two snapshots differ by what came between them. */
export interface LatencyDistribution extends LatencyPercentiles {
  /** 95 % of them took no longer. */
  readonly p95Ms: number
  /** 99.9 % of them took no longer. */
  readonly p999Ms: number
  /** Ascending, without empty ones; each is as wide as 1.6 % of its bound, at most. */
  readonly buckets: readonly LatencyBucket[]
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

  /** All 0 before the first. Read in one go, as it is asked for again and again, of many models. */
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

/** The least that belongs to a bucket: the first has whatever is shorter, too, and the last whatever is longer. */
function boundMs(index: number): number {
  word[0] = (firstWord + index) << shift
  return scratch[0]!
}

/** Delays of the application's thread, in milliseconds. */
export interface EventLoopDelayStatistics extends LatencyDistribution {
  /** Of all that were looked at. */
  readonly sumMs: number
}

/** How often it is looked, in milliseconds. */
const intervalMs = 20

/**
 * By how much timers of the application's thread are late, while an engine has something in flight. A timer of its own asks 50 times a
 * second, and is set for as long as there is anything to do: an idle engine has none. What came while the thread stood still is counted for
 * every interval that was missed: a stall weighs as much as it lasts.
 */
export class EventLoopDelay {
  readonly #clock: Clock
  readonly #busy: { readonly held: boolean }
  #delays: LatencyHistogram | null = null
  #sumMs = 0
  #set = false
  #dueMs = 0

  /** @param busy whether anything is in flight. */
  constructor(clock: Clock, busy: { readonly held: boolean }) {
    this.#clock = clock
    this.#busy = busy
  }

  /** Something is in flight from now on. */
  readonly begin = (): void => {
    if (!this.#set) this.#ask()
  }

  /** All 0 before anything was in flight for long enough. */
  get statistics(): EventLoopDelayStatistics {
    return { ...(this.#delays ?? new LatencyHistogram()).distribution(), sumMs: this.#sumMs }
  }

  #ask(): void {
    this.#set = true
    this.#dueMs = this.#clock.nowMs() + intervalMs
    this.#clock.setTimer(this.#answered, intervalMs)
  }

  readonly #answered = (): void => {
    const lateMs = Math.max(0, this.#clock.nowMs() - this.#dueMs)
    this.#note(lateMs)
    for (let leftMs = lateMs - intervalMs; leftMs > 0; leftMs -= intervalMs) this.#note(leftMs)
    this.#set = false
    if (this.#busy.held) this.#ask()
  }

  #note(lateMs: number): void {
    this.#delays ??= new LatencyHistogram()
    this.#delays.record(lateMs)
    this.#sumMs += lateMs
  }
}
