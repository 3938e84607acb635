import type { Sample } from '../input/sample-source.ts'
import type { LoadClock } from './load.ts'

/** Records the outcome of requests. Each belongs to the window in which it ends. */
export class Recorder {
  readonly clock: LoadClock
  readonly #log: RequestLog | null
  #window: LoadWindow
  #pending = 0
  #ended = 0
  #firstSentMs = Infinity
  #lastEndedMs = 0
  #awaited = -1
  #onAwaited: () => void = () => {}

  constructor(clock: LoadClock, log: RequestLog | null = null) {
    this.clock = clock
    this.#log = log
    this.#window = new LoadWindow(clock.nowMs())
  }

  /** Requests in flight. */
  get pending(): number {
    return this.#pending
  }

  /** Requests ended so far. */
  get ended(): number {
    return this.#ended
  }

  /** When the first request was sent, and when the last one ended. */
  get span(): { readonly firstSentMs: number; readonly lastEndedMs: number } {
    return { firstSentMs: this.#firstSentMs, lastEndedMs: this.#lastEndedMs }
  }

  /** The current window so far. */
  get current(): LoadWindow {
    return this.#window
  }

  /** Ends the current window, and begins the next. */
  cut(): LoadWindow {
    const window = this.#window
    window.endMs = this.clock.nowMs()
    this.#window = new LoadWindow(window.endMs)
    return window
  }

  /** Calls back when so many requests have ended, before the next one is recorded. */
  onceEnded(count: number, callback: () => void): void {
    this.#awaited = count
    this.#onAwaited = callback
  }

  /** Call this before sending a request; returns the time. */
  sent(): number {
    const nowMs = this.clock.nowMs()
    if (this.#firstSentMs === Infinity) this.#firstSentMs = nowMs
    this.#pending++
    this.#window.sentCount++
    return nowMs
  }

  /** Like {@link sent}, for a request with an intended moment. */
  sentLate(intendedMs: number): number {
    const nowMs = this.sent()
    const lagUs = Math.max(0, nowMs - intendedMs) * 1000
    this.#window.sendLag.record(lagUs)
    if (lagUs > delayedAfterUs) this.#window.delayedCount++
    return nowMs
  }

  /** A request was answered. The times are when it was meant to be sent, and when it was sent. */
  answered(intendedMs: number, sentMs: number, sample: Sample): void {
    const nowMs = this.clock.nowMs()
    const window = this.#window
    window.requestCount++
    window.inferenceCount += sample.rows
    window.latency.record((nowMs - intendedMs) * 1000)
    this.#log?.push(intendedMs, sentMs, nowMs, sample, null)
    this.#end(nowMs)
  }

  /** A request was not answered. */
  failed(intendedMs: number, sentMs: number, sample: Sample, error: unknown): void {
    const nowMs = this.clock.nowMs()
    const code = codeOf(error)
    const { failures } = this.#window
    failures[code] = (failures[code] ?? 0) + 1
    this.#log?.push(intendedMs, sentMs, nowMs, sample, code)
    this.#end(nowMs)
  }

  #end(nowMs: number): void {
    this.#pending--
    this.#lastEndedMs = nowMs
    if (++this.#ended === this.#awaited) this.#onAwaited()
  }
}

/** The code of an error; its name if it has no code. */
export function codeOf(error: unknown): string {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : typeof error
}

/** Requests per block of memory. */
const blockLength = 1 << 16

/** One request, in times of the load's clock. */
interface LoggedRequest {
  /** The intended moment of sending; equal to {@link sentMs} without one. */
  readonly intendedMs: number
  readonly sentMs: number
  readonly endedMs: number
  readonly rows: number
  /** `null` for none, or one that is no number. */
  readonly sequenceId: number | null
  /** The error code; `null` if it was answered. */
  readonly failure: string | null
}

/** Numbers per request: its times, rows, sequence id and the number of its failure's code. */
const numbersEach = 6

/**
 * All requests of a measurement, in the order in which they ended, at 48 bytes each. Only needed to list
 * them.
 */
export class RequestLog {
  readonly #blocks: Float64Array[] = []
  /** The codes behind their numbers; 0 for an answer. */
  readonly #codes: (string | null)[] = [null]
  readonly #limit: number
  #length = 0
  #dropped = 0

  /** @param limit of requests; further ones are dropped. */
  constructor(limit = Infinity) {
    this.#limit = limit
  }

  get length(): number {
    return this.#length
  }

  /** Requests dropped after the limit was reached. */
  get dropped(): number {
    return this.#dropped
  }

  push(
    intendedMs: number,
    sentMs: number,
    endedMs: number,
    { rows, options }: Sample,
    failure: string | null,
  ): void {
    if (this.#length >= this.#limit) {
      this.#dropped++
      return
    }
    const at = this.#length++ % blockLength
    if (at === 0) this.#blocks.push(new Float64Array(numbersEach * blockLength))
    const sequenceId = typeof options?.sequenceId === 'number' ? options.sequenceId : NaN
    const known = this.#codes.indexOf(failure)
    const code = known === -1 ? this.#codes.push(failure) - 1 : known
    this.#blocks.at(-1)!.set([intendedMs, sentMs, endedMs, rows, sequenceId, code], numbersEach * at)
  }

  *[Symbol.iterator](): Generator<LoggedRequest> {
    for (let index = 0; index < this.#length; index++) {
      const from = numbersEach * (index % blockLength)
      const numbers = this.#blocks[Math.floor(index / blockLength)]!.subarray(from, from + numbersEach)
      const [intendedMs, sentMs, endedMs, rows, id, code] = [...numbers] as [
        number,
        number,
        number,
        number,
        number,
        number,
      ]
      const sequenceId = Number.isNaN(id) ? null : id
      yield { intendedMs, sentMs, endedMs, rows, sequenceId, failure: this.#codes[code] ?? null }
    }
  }
}

/** Bits of a float's fraction that select its bucket: 512 per power of two, so each value is within 0.1 %. */
const fractionBits = 9
const shift = 23 - fractionBits
/** The bucket of a quarter of a microsecond; shorter durations count as that. */
const firstWord = (127 - 2) << fractionBits
/** Up to 2^34 us, almost five hours. */
const buckets = 36 << fractionBits

const scratch = new Float32Array(1)
const word = new Uint32Array(scratch.buffer)

/**
 * A histogram of durations, 147 KiB whatever their number: millions of requests a minute would not fit as
 * numbers. Average, deviation and maximum are exact, percentiles within 0.1 %.
 */
export class DurationHistogram {
  readonly #counts = new Float64Array(buckets)
  #count = 0
  #sumUs = 0
  #squaresUs = 0
  #maxUs = 0

  get count(): number {
    return this.#count
  }

  get averageUs(): number {
    return this.#count === 0 ? 0 : this.#sumUs / this.#count
  }

  /** Of a sample, as in perf_analyzer: divided by the count minus one. */
  get standardDeviationUs(): number {
    if (this.#count < 2) return 0
    return Math.sqrt(Math.max(0, (this.#squaresUs - this.#sumUs * this.averageUs) / (this.#count - 1)))
  }

  get maxUs(): number {
    return this.#maxUs
  }

  record(us: number): void {
    scratch[0] = us
    const index = us > 0 ? (word[0]! >>> shift) - firstWord : 0
    this.#counts[index < 0 ? 0 : index < buckets ? index : buckets - 1]!++
    this.#count++
    this.#sumUs += us
    this.#squaresUs += us * us
    if (us > this.#maxUs) this.#maxUs = us
  }

  /** Adds the counts of another histogram. */
  add(other: DurationHistogram): void {
    for (let index = 0; index < buckets; index++) this.#counts[index]! += other.#counts[index]!
    this.#count += other.#count
    this.#sumUs += other.#sumUs
    this.#squaresUs += other.#squaresUs
    this.#maxUs = Math.max(this.#maxUs, other.#maxUs)
  }

  /**
   * The duration at index `round(share * (count - 1))` in ascending order, as in perf_analyzer; 0 without
   * durations.
   */
  quantileUs(share: number): number {
    if (this.#count === 0) return 0
    let before = Math.round(share * (this.#count - 1))
    if (before === this.#count - 1) return this.#maxUs
    let index = 0
    while ((before -= this.#counts[index]!) >= 0) index++
    return Math.min(this.#maxUs, bound(index, 0.5))
  }

  /** Number of durations up to `us`. */
  countUpTo(us: number): number {
    let count = 0
    for (let index = 0; index < buckets && bound(index, 1) <= us * (1 + Number.EPSILON); index++)
      count += this.#counts[index]!
    return count
  }

  /** The histogram with fewer bars: ascending bounds, `perOctave` per doubling, and the count up to each. */
  bars(perOctave: 1 | 2 | 4 | 8 | 16 | 32): { upToUs: number; count: number }[] {
    const width = (1 << fractionBits) / perOctave
    const bars: { upToUs: number; count: number }[] = []
    for (let first = 0; first < buckets; first += width) {
      let count = 0
      for (let index = first; index < first + width; index++) count += this.#counts[index]!
      if (count > 0) bars.push({ upToUs: bound(first + width - 1, 1), count })
    }
    return bars
  }
}

/** A duration inside a bucket: 0.5 is its middle, 1 its end. */
function bound(index: number, share: number): number {
  word[0] = ((firstWord + index) << shift) + share * (1 << shift)
  return scratch[0]!
}

/** A request sent later than this after its intended moment counts as delayed. */
export const delayedAfterUs = 1000

/** The requests that ended between two moments. */
export class LoadWindow {
  startMs: number
  endMs: number
  /** Answered requests, and their rows. */
  requestCount = 0
  inferenceCount = 0
  /** Of answered requests, from the intended moment of sending. */
  readonly latency = new DurationHistogram()
  /** How late requests were sent, if they had an intended moment. */
  readonly sendLag = new DurationHistogram()
  delayedCount = 0
  /** Requests sent. */
  sentCount = 0
  /** By error code. */
  readonly failures: Record<string, number> = {}

  constructor(startMs: number) {
    this.startMs = startMs
    this.endMs = startMs
  }

  get seconds(): number {
    return (this.endMs - this.startMs) / 1000
  }

  get failureCount(): number {
    return Object.values(this.failures).reduce((sum, count) => sum + count, 0)
  }

  /** Adds the counts of another window. The duration is the sum of both. */
  add(other: LoadWindow): void {
    this.endMs += other.endMs - other.startMs
    this.requestCount += other.requestCount
    this.inferenceCount += other.inferenceCount
    this.latency.add(other.latency)
    this.sendLag.add(other.sendLag)
    this.delayedCount += other.delayedCount
    this.sentCount += other.sentCount
    for (const [code, count] of Object.entries(other.failures))
      this.failures[code] = (this.failures[code] ?? 0) + count
  }
}
