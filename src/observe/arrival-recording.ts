import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import type { Clock } from '../base/clock.ts'
import { InferenceError } from '../errors.ts'
import { recordedConfig, type Arrival, type ArrivalRun } from './arrival.ts'
import type { Observers } from './observers.ts'
import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  RequestObserver,
} from './request-observer.ts'

/**
 * Requests being recorded, for `zerohop perf --replay` and `zerohop simulate`: a line of JSON each, in the order in which they came,
 * an {@link Arrival}. No request is held up or failed by it: what a disk is too slow or too full for is left out, and counted.
 *
 * `engine.recordArrivals()` throws `ERR_INVALID_ARG` or `ERR_CLOSED`, and what Node.js throws for a file that cannot be written.
 */
export class ArrivalRecording {
  readonly #file: ArrivalFile
  readonly #order: ArrivalOrder
  readonly #recorder: ArrivalRecorder
  readonly #observers: Observers
  readonly #stopped: () => void
  #stopping: Promise<void> | null = null

  /** @internal */
  constructor(
    file: ArrivalFile,
    models: ReadonlySet<string> | null,
    observers: Observers,
    clock: Clock,
    stopped: () => void,
  ) {
    this.#file = file
    this.#stopped = stopped
    this.#order = new ArrivalOrder((arrival) => this.#file.add(arrival))
    this.#recorder = new ArrivalRecorder(this.#order, clock, models)
    this.#observers = observers
    observers.add(this.#recorder)
  }

  /** Requests in the file, or on their way to it. */
  get recorded(): number {
    return this.#file.recorded
  }

  /** Requests that are not, as the disk was too slow or could not be written. */
  get lost(): number {
    return this.#file.lost
  }

  /** Why nothing more is written; `null` while that is not so. */
  get failure(): Error | null {
    return this.#file.failure
  }

  /**
   * Ends the recording and resolves when it is written, or cannot be: see {@link failure}. Requests that are on their way are in it
   * without their latency. May be called more than once; closing the engine does so as well.
   */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop())
  }

  /** As {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #stop(): Promise<void> {
    this.#observers.remove(this.#recorder)
    this.#order.end()
    await this.#file.close()
    this.#stopped()
  }
}

/** Notes what requests come, and what becomes of them. */
class ArrivalRecorder implements RequestObserver {
  readonly #order: ArrivalOrder
  readonly #clock: Clock
  readonly #models: ReadonlySet<string> | null
  /** Those whose configuration is recorded. */
  readonly #known = new WeakSet<ObservedModel>()
  #firstAtMs: number | null = null
  readonly #answers = new RecentAnswers()
  #lastBatch: ObservedBatch | null = null

  /** @param models of which requests are recorded; `null` for all. */
  constructor(order: ArrivalOrder, clock: Clock, models: ReadonlySet<string> | null) {
    this.#order = order
    this.#clock = clock
    this.#models = models
  }

  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    if (this.#models !== null && !this.#models.has(model.name)) return null
    const { atMs } = facts // what is kept must not keep the data of the request
    this.#firstAtMs ??= atMs
    const arrival = arrivalOf(model, facts, this.#firstAtMs)
    const isFirst = model.batching !== null && !this.#known.has(model)
    if (isFirst) this.#known.add(model)
    const open = this.#order.came({
      ...arrival,
      afterAnswerUs: this.#answers.followedUs(atMs),
      config: isFirst ? recordedConfig(model.batching!) : undefined,
    })
    const runs = {
      decoded: () => void (open.end.decodedUs = us(this.#clock.nowMs() - atMs)),
      ran: ({ batch }: ObservedRun) => this.#ran(open, batch),
    }
    return {
      ...runs,
      // What is run for it is no request of a caller's; where that is the model's own, for several callers at once, its runs are.
      child: (of) =>
        of === model ? { ...runs, child: () => null, shared: () => {}, ended: () => {} } : null,
      shared: () => void (open.end.shared = true),
      ended: (succeeded, reason) => this.#ended(open, atMs, succeeded, reason),
    }
  }

  /** A batch has run in which a request had a part: noted with the first one that is told of it. */
  #ran({ end }: OpenArrival, batch: ObservedBatch): void {
    if (batch === this.#lastBatch || batch.moments === null) return
    this.#lastBatch = batch
    ;(end.runs ??= []).push(runOf(batch, batch.moments, this.#firstAtMs!))
  }

  #ended(open: OpenArrival, atMs: number, succeeded: boolean, reason: unknown): void {
    const nowMs = this.#clock.nowMs()
    const tookUs = us(nowMs - atMs)
    this.#answers.given(nowMs)
    // Whatever else a request fails for is an error of the engine's.
    if (!succeeded && !(reason instanceof InferenceError)) open.end.cancelledUs = tookUs
    this.#order.ended(open, succeeded ? tookUs : null)
  }
}

function runOf(
  { rows, requestCount, instance, inline, reason }: ObservedBatch,
  moments: NonNullable<ObservedBatch['moments']>,
  firstAtMs: number,
): ArrivalRun {
  const { takenAtMs, gatheredAtMs, startMs, inferEndMs, scatterAtMs, doneAtMs } = moments
  return {
    takenAtUs: us(takenAtMs - firstAtMs), rows, requests: requestCount, instance, reason,
    gatherUs: us(gatheredAtMs - takenAtMs), handOverUs: us(startMs - gatheredAtMs), runUs: us(inferEndMs - startMs),
    wakeUs: us(scatterAtMs - inferEndMs), scatterUs: us(doneAtMs - scatterAtMs), inline: inline || undefined,
  } // prettier-ignore
}

/** What is `undefined` of it is not in the file. */
function arrivalOf(
  model: ObservedModel,
  { atMs, rows, dims, options }: RequestFacts,
  firstAtMs: number,
): Arrival {
  const { priority, timeoutMs, deadlineMs, sequence } = options
  return {
    atUs: us(atMs - firstAtMs),
    rows: Math.max(1, rows),
    model: model.name,
    dims: dims === null ? undefined : freeDims(model, dims),
    priority,
    timeoutMs,
    deadlineMs,
    sequenceId: typeof sequence?.id === 'bigint' ? String(sequence.id) : sequence?.id,
  }
}

/** Of inputs that were given, and have another dimension than the rows that the model leaves open. */
function freeDims({ metadata }: ObservedModel, dims: readonly (readonly number[])[]): Arrival['dims'] {
  const free = metadata.inputs.flatMap(({ name, shape }, index) => {
    const given = dims[index] ?? []
    const isFree = given.length > 0 && shape.some((dim, axis) => axis > 0 && typeof dim !== 'number')
    return isFree ? [[name, [...given]] as const] : []
  })
  return free.length === 0 ? undefined : Object.fromEntries(free)
}

/** Microseconds to a tenth; the clock may have gone nowhere between two looks. */
function us(ms: number): number {
  return Math.max(0, Math.round(ms * 10_000) / 10)
}

/** What becomes of a request. */
interface ArrivalEnd {
  latencyUs?: number
  decodedUs?: number
  cancelledUs?: number
  shared?: true
  runs?: ArrivalRun[]
}

/** A request that has come, and may be on its way still. */
interface OpenArrival {
  readonly arrival: Arrival
  settled: boolean
  /** As much of it as is known. */
  readonly end: ArrivalEnd
}

/** So many requests may be on their way until the oldest is written without its latency. */
const mostOpen = 1 << 16

/** Puts requests, which are answered in any order, in the order in which they came. */
export class ArrivalOrder {
  readonly #write: (arrival: Arrival) => void
  #open: OpenArrival[] = []
  #head = 0

  /** @param write takes the requests, each once its latency is known or it is to be known no more. */
  constructor(write: (arrival: Arrival) => void) {
    this.#write = write
  }

  came(arrival: Arrival): OpenArrival {
    const open = { arrival, settled: false, end: {} }
    this.#open.push(open)
    if (this.#open.length - this.#head > mostOpen) this.#writeOldest()
    return open
  }

  /** @param latencyUs `null` for a request that was not answered. */
  ended(open: OpenArrival, latencyUs: number | null): void {
    if (latencyUs !== null) open.end.latencyUs = latencyUs
    open.settled = true
    while (this.#head < this.#open.length && this.#open[this.#head]!.settled) this.#writeOldest()
  }

  /** Writes all there are, those without their latency that are on their way. */
  end(): void {
    while (this.#head < this.#open.length) this.#writeOldest()
  }

  #writeOldest(): void {
    const { arrival, end } = this.#open[this.#head++]!
    this.#write({ ...arrival, ...end })
    if (this.#head < 1024 || this.#head * 2 < this.#open.length) return
    this.#open = this.#open.slice(this.#head)
    this.#head = 0
  }
}

const resolved = Promise.resolve()

/** Answers after which the event loop has not gone on: what is called now, follows from them. */
class RecentAnswers {
  /** When they were given, those that nothing has followed from; ascending. */
  #givenMs: number[] = []
  #looks = 0

  given(nowMs: number): void {
    this.#givenMs.push(nowMs)
    this.#looks++
    void resolved.then(this.#afterPromises)
  }

  /** How long ago the answer was given, in microseconds, from which a call follows that is made now; `undefined` for none. */
  followedUs(nowMs: number): number | undefined {
    const givenMs = this.#givenMs.shift()
    return givenMs === undefined ? undefined : us(nowMs - givenMs)
  }

  // All promises that can run have run before the next tick.
  readonly #afterPromises = (): void => process.nextTick(this.#look)

  readonly #look = (): void => {
    if (--this.#looks === 0) this.#givenMs = []
  }
}

/** As much is written at once. */
const writtenAtOnceBytes = 1 << 16
/** As much may wait for the disk; what comes beyond it is lost. */
const waitingBytes = 1 << 23
/** What is less than that is written after so long. */
const longestWaitMs = 1000
/** A pipe without a reader is an error: opening it does not wait for one. */
const createOnly =
  constants.O_WRONLY |
  constants.O_CREAT |
  constants.O_TRUNC |
  (constants.O_NONBLOCK ?? 0) |
  (constants.O_NOCTTY ?? 0)

/** A recording being written. If the disk is slow or full, lines are dropped and counted, and no request waits. */
export class ArrivalFile {
  /** Requests that are in the file, or on their way to it. */
  recorded = 0
  /** Requests that were not written. */
  lost = 0
  /** Why writing has ended before its time; `null` while it has not. */
  failure: Error | null = null
  readonly #file: FileHandle
  #lines: string[] = []
  #bytes = 0
  #writing: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  /** Whole lines that are in the file. */
  #writtenBytes = 0

  /**
   * Begins a new file, in place of one that is there.
   *
   * @throws what Node.js throws for a file that cannot be written.
   */
  static async create(path: string): Promise<ArrivalFile> {
    return new ArrivalFile(await open(path, createOnly))
  }

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /** Adds a request; those of a file are in the order of `atUs`. */
  add(arrival: Arrival): void {
    if (this.failure !== null || this.#bytes > waitingBytes) return void this.lost++
    const line = `${JSON.stringify(arrival)}\n`
    this.#lines.push(line)
    this.#bytes += line.length
    this.recorded++
    if (this.#bytes >= writtenAtOnceBytes) void this.#write()
    else this.#timer ??= setTimeout(() => void this.#write(), longestWaitMs).unref()
  }

  /** Writes what is left, and closes the file. Never rejects. */
  async close(): Promise<void> {
    while (this.#lines.length > 0 && this.failure === null) await this.#write()
    await this.#writing
    this.#clearTimer()
    await this.#file.close().catch((error: Error) => (this.failure ??= error))
  }

  #clearTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #write(): Promise<void> {
    this.#clearTimer()
    return (this.#writing ??= this.#writeLines().finally(() => (this.#writing = null)))
  }

  async #writeLines(): Promise<void> {
    while (this.#lines.length > 0) {
      const lines = this.#lines
      this.#lines = []
      this.#bytes = 0
      try {
        const text = Buffer.from(lines.join(''))
        await this.#file.appendFile(text)
        this.#writtenBytes += text.length
      } catch (error) {
        this.failure = error as Error
        const unwritten = lines.length + this.#lines.length
        this.lost += unwritten
        this.recorded -= unwritten
        this.#lines = []
        // As far as it went, it would end with half a line.
        await this.#file.truncate(this.#writtenBytes).catch(() => {})
      }
      if (this.#bytes < writtenAtOnceBytes) return
    }
  }
}
