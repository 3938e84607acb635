import type { Sample } from '../input/sample-source.ts'
import type { LoadClock } from './load.ts'

/** Notes what becomes of requests: each belongs to the window in which it ends. */
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

  /** Requests that were sent and have not ended. */
  get pending(): number {
    return this.#pending
  }

  /** Requests that ended since it was made. */
  get ended(): number {
    return this.#ended
  }

  /** When the first request was sent and the last one ended, since it was made. */
  get span(): { readonly firstSentMs: number; readonly lastEndedMs: number } {
    return { firstSentMs: this.#firstSentMs, lastEndedMs: this.#lastEndedMs }
  }

  /** What has ended in the window that goes on. */
  get current(): LoadWindow {
    return this.#window
  }

  /** Ends the window that goes on, and begins the next. */
  cut(): LoadWindow {
    const window = this.#window
    window.endMs = this.clock.nowMs()
    this.#window = new LoadWindow(window.endMs)
    return window
  }

  /** Calls back as soon as so many requests have ended, before anything of a further one is noted. */
  onceEnded(count: number, callback: () => void): void {
    this.#awaited = count
    this.#onAwaited = callback
  }

  /** A request is about to be sent; when that is. */
  sent(): number {
    const nowMs = this.clock.nowMs()
    if (this.#firstSentMs === Infinity) this.#firstSentMs = nowMs
    this.#pending++
    this.#window.sentCount++
    return nowMs
  }

  /** As {@link sent}, of one that was meant to be sent at a certain moment. */
  sentLate(intendedMs: number): number {
    const nowMs = this.sent()
    const lagUs = Math.max(0, nowMs - intendedMs) * 1000
    this.#window.sendLag.record(lagUs)
    if (lagUs > delayedAfterUs) this.#window.delayedCount++
    return nowMs
  }

  /** A request was answered, which was meant to be sent, and was sent, when it is said. */
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

/** The code of an error, its name where it has none. */
export function codeOf(error: unknown): string {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : typeof error
}

/** Requests in one piece of memory. */
const blockLength = 1 << 16

/** One request, on the clock of the load. */
interface LoggedRequest {
  /** When it was meant to be sent; as {@link sentMs} where nothing was meant. */
  readonly intendedMs: number
  readonly sentMs: number
  readonly endedMs: number
  readonly rows: number
  /** `null` for none, or one that is no number. */
  readonly sequenceId: number | null
  /** The code of its error; `null` for one that was answered. */
  readonly failure: string | null
}

interface Block {
  /** Four numbers for each request. */
  readonly numbers: Float64Array
  readonly rows: Uint32Array
  readonly failures: Uint8Array
}

/** Each request of a measurement, in the order in which they ended: 37 bytes each, for what has to list them. Others need none. */
export class RequestLog {
  readonly #blocks: Block[] = []
  /** What numbers stand for, 0 for an answer. */
  readonly #codes: string[] = ['']
  readonly #limit: number
  #length = 0
  #dropped = 0

  /** @param limit of requests, after which no more are noted. */
  constructor(limit = Infinity) {
    this.#limit = limit
  }

  get length(): number {
    return this.#length
  }

  /** Requests that came after the limit was reached. */
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
    if (at === 0)
      this.#blocks.push({
        numbers: new Float64Array(4 * blockLength),
        rows: new Uint32Array(blockLength),
        failures: new Uint8Array(blockLength),
      })
    const block = this.#blocks.at(-1)!
    block.numbers[4 * at] = intendedMs
    block.numbers[4 * at + 1] = sentMs
    block.numbers[4 * at + 2] = endedMs
    block.numbers[4 * at + 3] = typeof options?.sequenceId === 'number' ? options.sequenceId : NaN
    block.rows[at] = rows
    if (failure !== null) block.failures[at] = this.#numberOf(failure)
  }

  *[Symbol.iterator](): Generator<LoggedRequest> {
    for (let index = 0; index < this.#length; index++) {
      const { numbers, rows, failures } = this.#blocks[Math.floor(index / blockLength)]!
      const at = index % blockLength
      const [intendedMs, sentMs, endedMs, sequenceId] = numbers.subarray(4 * at, 4 * at + 4) as unknown as [
        number,
        number,
        number,
        number,
      ]
      const code = failures[at]!
      yield {
        intendedMs,
        sentMs,
        endedMs,
        rows: rows[at]!,
        sequenceId: Number.isNaN(sequenceId) ? null : sequenceId,
        failure: code === 0 ? null : this.#codes[code]!,
      }
    }
  }

  #numberOf(code: string): number {
    const known = this.#codes.indexOf(code)
    if (known > 0) return known
    return this.#codes.length < 256 ? this.#codes.push(code) - 1 : 255
  }
}

/** Bits of a number's fraction that choose its bucket: 512 between a power of two and the next, so each is within 0.1 %. */
const fractionBits = 9
const shift = 23 - fractionBits
/** Of a quarter of a microsecond: what is shorter counts as that. */
const firstWord = (127 - 2) << fractionBits
/** As far as 2^34 us, almost five hours. */
const buckets = 36 << fractionBits

const scratch = new Float32Array(1)
const word = new Uint32Array(scratch.buffer)

/**
 * How often which duration was seen, in 147 KiB whatever comes: millions of requests a minute would not fit as numbers. Average,
 * deviation and maximum are exact, percentiles within 0.1 %.
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

  /** Of a sample, as perf_analyzer has it: divided by one less than the count. */
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

  /** Counts what another has seen as well. */
  add(other: DurationHistogram): void {
    for (let index = 0; index < buckets; index++) this.#counts[index]! += other.#counts[index]!
    this.#count += other.#count
    this.#sumUs += other.#sumUs
    this.#squaresUs += other.#squaresUs
    this.#maxUs = Math.max(this.#maxUs, other.#maxUs)
  }

  /** The duration at index `round(share * (count - 1))` of all in order, as perf_analyzer has it; 0 where there are none. */
  quantileUs(share: number): number {
    if (this.#count === 0) return 0
    let before = Math.round(share * (this.#count - 1))
    if (before === this.#count - 1) return this.#maxUs
    let index = 0
    while ((before -= this.#counts[index]!) >= 0) index++
    return Math.min(this.#maxUs, bound(index, 0.5))
  }

  /** How many were at most `us`. */
  countUpTo(us: number): number {
    let count = 0
    for (let index = 0; index < buckets && bound(index, 1) <= us * (1 + Number.EPSILON); index++)
      count += this.#counts[index]!
    return count
  }

  /** All of them by size: ascending bounds, `perOctave` between a number and twice as much, and how many lie up to each. */
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

/** Where in a bucket a number lies: 0.5 its middle, 1 its end. */
function bound(index: number, share: number): number {
  word[0] = ((firstWord + index) << shift) + share * (1 << shift)
  return scratch[0]!
}

/** A request that is sent later than this after it was meant to be is delayed. */
export const delayedAfterUs = 1000

/** The requests that ended between two moments. */
export class LoadWindow {
  startMs: number
  endMs: number
  /** Answered requests, and their rows. */
  requestCount = 0
  inferenceCount = 0
  /** Of answered requests, from when they were meant to be sent. */
  readonly latency = new DurationHistogram()
  /** How late requests were sent, where that was meant to be at some moment. */
  readonly sendLag = new DurationHistogram()
  delayedCount = 0
  /** Requests that were sent. */
  sentCount = 0
  /** By the codes of their errors. */
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

  /** Counts what another has seen as well; it goes on as long as both together. */
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
