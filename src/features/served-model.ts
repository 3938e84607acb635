import { checkInferOptions, type CheckedOptions, type InferOptions } from '../options/infer-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { invalidArgument } from '../errors.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import { noLeases, type ModelCapacity, type ModelStatistics } from '../observe/model-statistics.ts'
import type { ModelCounts } from '../observe/model-counts.ts'
import type { RequestObservation } from '../observe/request-observer.ts'
import type { FeedParser } from '../request/feeds.ts'
import { IgnoredOptions } from '../request/ignored-options.ts'
import { InferRequest, type Answer, type ParsedFeeds, type PriorityLevel } from '../request/infer-request.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import { SplitRequest } from '../schedule/split-request.ts'
import type { ScaleWatch } from '../models/scaling/scaling.ts'
import type { HeldRows } from './leases/held-rows.ts'
import { ImageDecoding } from './leases/image-decoding.ts'
import { leasesOf, type Leases } from './leases/leases.ts'
import { ResponseSharing } from './response-cache/response-sharing.ts'
import type { Sequences } from './sequences/sequences.ts'
import {
  callsOf,
  noSequences,
  StepRequest,
  type BoundStep,
  type RunningStep,
  type StepCaller,
  type Target,
} from './target.ts'

/**
 * A model or function that serves. Turns calls into requests: checks and parses them, and submits them to its
 * scheduler.
 */
export class ServedModel implements Target {
  readonly scheduler: Scheduler
  readonly parser: FeedParser
  /** `null` where every request has a run of its own. */
  readonly responses: ResponseSharing | null
  /** `null` for a model without `sequence` in its configuration. */
  readonly sequences: Sequences | null
  readonly optionalInputs: readonly string[]
  readonly kind = 'model'
  readonly stepCount = 1
  /** Leases of its rows; `null` before the first. */
  leases: Leases | null = null
  /** Scales and tunes it, once its instances serve. */
  scaleWatch: ScaleWatch | null = null
  /** `null` for a model without inputs for encoded images. */
  readonly #images: ImageDecoding | null
  readonly #config: ResolvedConfig
  readonly #splitsOversized: boolean
  /** Whether a call without options is one run of the feeds as they are. */
  readonly #isPlain: boolean
  readonly #ignored: IgnoredOptions

  constructor(
    scheduler: Scheduler,
    parser: FeedParser,
    sequences: Sequences | null,
    config: ResolvedConfig,
    ignored = new IgnoredOptions(scheduler.metadata.name),
  ) {
    this.scheduler = scheduler
    this.parser = parser
    this.sequences = sequences
    this.responses = ResponseSharing.of(scheduler, config)
    this.optionalInputs = config.optionalInputs
    this.#config = config
    this.#splitsOversized = config.splitOversized
    this.#ignored = ignored
    scheduler.decoding = this.#images = this.#imageDecoding()
    this.#isPlain = this.#images === null && this.responses === null && !this.#splitsOversized
    this.#followJoining()
    scheduler.joining.onChange = () => {
      this.#followJoining()
      scheduler.rejoin()
    }
  }

  #followJoining(): void {
    const { joining } = this.scheduler
    this.parser.byRow = joining.byRow
    this.parser.rowBuckets = joining.joinedBuckets
  }

  get metadata(): ModelMetadata {
    return this.scheduler.joining.metadata
  }

  joiningKnown(): Promise<void> {
    const { keepAlive, rowCheck } = this.scheduler
    return keepAlive.during(rowCheck?.checked ?? Promise.resolve())
  }

  get labels(): ReadonlyMap<string, readonly string[]> {
    return this.scheduler.joining.labels
  }

  get largestBatch(): number {
    return this.scheduler.joining.largestBatch
  }

  get counts(): ModelCounts {
    return this.scheduler.counts
  }

  infer(feeds: unknown, options?: InferOptions<string, boolean>): Promise<Answer> {
    try {
      // Most calls, by functions that are small enough for V8 to compile them as one.
      if (options !== undefined || !this.#isPlain) return this.#inferWith(feeds, options)
      const { joining, levels } = this.scheduler
      return this.#submitPlain(this.parser.parse(feeds), joining.plainOptions, levels.of(undefined))
    } catch (error) {
      return this.counts.refuse(error)
    }
  }

  #inferWith(feeds: unknown, options: InferOptions<string, boolean> | undefined): Promise<Answer> {
    const { joining, metadata } = this.scheduler
    const checked =
      options === undefined
        ? joining.plainOptions
        : checkInferOptions(options, metadata, joining.shaped.offered)
    if (checked.sequence !== undefined) return this.#inSequence(feeds, checked)
    const images = this.#images
    if (images !== null && checked.signal?.aborted)
      return this.counts.refuse(checked.signal.reason, checked.signal)
    const encoded = images === null ? null : images.read(feeds)
    const maxRows = (checked.splitOversized ?? this.#splitsOversized) ? joining.metadata.maxBatchSize : 0
    const read = this.parser.parse(encoded === null ? feeds : encoded.feeds, maxRows > 0)
    const parsed = encoded === null ? read : { ...read, preparation: encoded.preparation }
    return this.#submit(parsed, checked, maxRows > 0 && !parsed.whole ? maxRows : Infinity)
  }

  /**
   * Runs the rows of a lease in place.
   *
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  inferLeased(leases: Leases, rows: HeldRows, options: InferOptions<string, boolean>): Promise<Answer> {
    const { joining, metadata } = this.scheduler
    const checked = checkInferOptions(options, metadata, joining.shaped.offered)
    if (checked.sequence !== undefined)
      throw invalidArgument('options.sequenceId', 'to be omitted for leased rows', checked.sequence.id, {
        model: metadata.name,
      })
    leases.end(rows, 'inferred')
    try {
      return this.#submitHeld(this.parser.parse(rows.take()), checked, rows)
    } catch (error) {
      rows.settled() // it did not become a request
      throw error
    }
  }

  async #submitHeld(parsed: ParsedFeeds, checked: CheckedOptions, rows: HeldRows): Promise<Answer> {
    try {
      if (this.responses === null) return await this.#submit({ ...parsed, leased: rows }, checked, Infinity)
      const answer = this.#submit(parsed, checked, Infinity) // which has made its own copy
      rows.settled()
      return await answer
    } catch (error) {
      rows.settled() // if it did not become a request
      throw error
    }
  }

  #inSequence(feeds: unknown, checked: CheckedOptions): Promise<Answer> {
    this.#levelOf(checked)
    if (this.sequences === null) throw noSequences(this.scheduler.metadata.name, this)
    return this.sequences.infer(feeds, checked, checked.sequence!)
  }

  #submit(parsed: ParsedFeeds, options: CheckedOptions, maxRows: number): Promise<Answer> {
    const level = this.#levelOf(options)
    if (this.responses !== null) return this.responses.infer({ feeds: parsed, maxRows, level, options })
    if (parsed.rows <= maxRows) return this.#submitPlain(parsed, options, level)
    const { metadata } = this.scheduler
    return new Promise((resolve, reject) =>
      this.#begin(new SplitRequest(metadata, parsed, maxRows, level, options, resolve, reject), options),
    )
  }

  #submitPlain(parsed: ParsedFeeds, options: CheckedOptions, level: PriorityLevel): Promise<Answer> {
    let resolve!: (answer: Answer) => void
    let reject!: (reason: unknown) => void
    const answer = new Promise<Answer>((onAnswer, onFailure) => {
      resolve = onAnswer
      reject = onFailure
    })
    this.#begin(new InferRequest(parsed, level, options, resolve, reject), options)
    return answer
  }

  #begin(request: InferRequest, options: CheckedOptions): void {
    request.isCall = true
    const { scheduler } = this
    if (scheduler.observed.by.observer === null) return scheduler.submit(request, options)
    const nowMs = scheduler.clock.nowMs()
    scheduler.observed.begun(request, options, nowMs)
    scheduler.submit(request, options, nowMs)
  }

  #levelOf(options: CheckedOptions): PriorityLevel {
    const { levels, joining } = this.scheduler
    const level = levels.of(options.priority)
    if (options !== joining.plainOptions)
      this.#ignored.look(levels, level, options.priority, options.timeoutMs)
    return level
  }

  begin<Step extends BoundStep>(
    step: Step,
    feeds: unknown,
    options: CheckedOptions,
    caller: StepCaller<Step>,
  ): RunningStep {
    const { scheduler, responses } = this
    const { maxBatchSize } = scheduler.joining.metadata
    const split = (options.splitOversized ?? this.#splitsOversized) && maxBatchSize > 0
    const parsed = this.counts.reading(() => this.parser.parse(feeds, split)) // a step counts like any caller
    const maxRows = split && !parsed.whole ? maxBatchSize : Infinity
    if (responses === null && parsed.rows <= maxRows) return this.submitStep(step, parsed, options, caller)
    const level = scheduler.levels.of(options.priority)
    const [resolve, reject] = callsOf(caller, step)
    if (responses !== null) {
      const leave = new AbortController()
      void responses
        .infer({
          feeds: parsed,
          maxRows,
          level,
          options: { ...options, signal: leave.signal },
          parent: caller.observation,
        })
        .then(resolve, reject)
      return { cancel: (reason) => leave.abort(reason) }
    }
    const request = new SplitRequest(scheduler.metadata, parsed, maxRows, level, options, resolve, reject)
    this.#observeStep(request, options, caller)
    scheduler.submit(request, options)
    return { cancel: (reason) => scheduler.cancel(request, 'cancelled', reason) }
  }

  /** As {@link begin}, for a parsed request that is a single run. */
  submitStep<Step extends BoundStep>(
    step: Step,
    parsed: ParsedFeeds,
    options: CheckedOptions,
    caller: StepCaller<Step>,
    nowMs?: number,
  ): RunningStep {
    const { scheduler } = this
    const level = scheduler.levels.of(options.priority)
    const request = new StepRequest(step, scheduler, parsed, level, options, caller)
    this.#observeStep(request, options, caller)
    scheduler.submit(request, options, nowMs)
    return request
  }

  #observeStep(
    request: InferRequest,
    options: CheckedOptions,
    { observation }: { readonly observation: RequestObservation | null },
  ): void {
    const { observed, clock } = this.scheduler
    if (observation !== null) observed.begun(request, options, clock.nowMs(), observation)
  }

  /** @throws InferenceError `ERR_INVALID_ARG` if its rows cannot be leased. */
  lend(): Leases {
    return (this.leases ??= leasesOf(this.scheduler, this.#config))
  }

  /** As {@link lend}; `null` if its rows cannot be leased. */
  lendIfAny(): Leases | null {
    try {
      return this.lend()
    } catch {
      return null
    }
  }

  room(priority: number | undefined): number {
    return this.scheduler.levels.of(priority).room
  }

  estimatedMs(rows: number, priority: number | undefined): number {
    return this.scheduler.estimatedAnswerMs('', rows, priority)
  }

  capacity(): ModelCapacity {
    const { instances, joining, pending, running, times, levels, estimatedMs } = this.scheduler
    const { msPerRequest } = times.throughput
    return {
      instances: instances.size,
      maxBatchSize: joining.metadata.maxBatchSize,
      waiting: pending,
      running,
      free: levels.of(undefined).room,
      requestsPerSecond: msPerRequest === 0 ? 0 : 1000 / msPerRequest,
      estimatedMs,
    }
  }

  stats(): ModelStatistics {
    const { instances, counts, pending } = this.scheduler
    return counts.snapshot(pending, instances.arena, this.responses?.totals, {
      instances: instances.statistics,
      leases: this.leases?.stats ?? noLeases,
      autoTune: this.scaleWatch?.autoTune ?? null,
    })
  }

  drained(): Promise<void> {
    this.sequences?.drain()
    return this.scheduler.drained()
  }

  destroy(): void {
    this.scheduler.destroy()
  }

  /** Frees what it keeps beside its instances; nothing waits or runs. */
  clear(): void {
    this.responses?.clear()
    this.sequences?.close()
    this.leases?.close()
  }

  #imageDecoding(): ImageDecoding | null {
    const { joining, metadata, counts, clock } = this.scheduler
    const { images, shaped } = joining
    if (images === null) return null
    return new ImageDecoding({
      model: metadata.name,
      inputs: shaped.shown.inputs,
      images,
      optionalInputs: this.optionalInputs,
      parser: this.parser,
      counts,
      clock,
      leases: () => this.lendIfAny(),
    })
  }
}
