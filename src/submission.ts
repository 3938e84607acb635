import { checkInferOptions, type CheckedOptions } from './config/check-infer-options.ts'
import type { InferOptions } from './config/infer-options.ts'
import type { Feeds } from './config/model-signature.ts'
import { decodeAll, encodedImages, leftOf, tensorsOf, type DecodedImage, type ImageFeeds } from './lease/encoded-images.ts'
import type { HeldRows } from './lease/held-rows.ts'
import { notForLeases, type Leases } from './lease/leases.ts'
import { notReady } from './model-state.ts'
import type { ModelLifecycle, ModelTarget } from './model-target.ts'
import { refused } from './serving-statistics.ts'
import type { FeedParser } from './request/feeds.ts'
import { IgnoredOptions } from './request/ignored-options.ts'
import { InferRequest, type Answer, type ParsedFeeds } from './request/infer-request.ts'
import type { Scheduler } from './scheduler/scheduler.ts'
import { SplitRequest } from './scheduler/split-request.ts'
import { sequencesOfModel } from './sequence-stream.ts'

/** Rows that are held, and what they are of. */
interface LeasedFrom {
  readonly of: ModelLifecycle
  readonly leases: Leases
  readonly rows: HeldRows
}

/** How the calls of a model become requests of what serves: read, checked, and handed to its scheduler. */
export class Submission {
  readonly #target: ModelTarget
  readonly #ignored: IgnoredOptions

  constructor(target: ModelTarget) {
    this.#target = target
    this.#ignored = new IgnoredOptions(target.name)
  }

  /** See {@link Model.infer}. */
  infer(feeds: unknown, options?: InferOptions<string, boolean>): Promise<Answer> {
    const { serving } = this.#target // the same for all of this request, whatever is loaded meanwhile
    const { state, scheduler, parser, pipeline } = serving
    if (state === 'ready' && pipeline !== null) return pipeline.infer(feeds, options)
    if (state !== 'ready' || scheduler === null || parser === null) return refused(serving, notReady(this.#target.name, serving))
    try {
      const { plainOptions, shaped, images } = scheduler.joining
      const checked = options === undefined ? plainOptions : checkInferOptions(options, scheduler.metadata, shaped.offered)
      const given = images === null ? null : encodedImages(this.#target.name, images, feeds)
      if (given !== null) return this.#inferImages(serving, given, { ...options }, checked)
      return checked.sequence === undefined ? this.#parse(serving, parser, feeds, checked) : this.#inSequence(serving, feeds, checked)
    } catch (error) {
      return refused(serving, error)
    }
  }

  /** Decodes images; then they are written where they will be run, if they are all that the request has. */
  async #inferImages(of: ModelLifecycle, { feeds, encoded }: ImageFeeds, options: InferOptions<string, boolean>, checked: CheckedOptions): Promise<Answer> {
    const { clock, joining, levels, stats } = of.scheduler!
    const startMs = clock.nowMs()
    let leased: LeasedFrom | null = null
    let decoded: readonly DecodedImage[]
    try {
      decoded = await decodeAll(encoded, this.#target.name, levels.of(checked.priority), checked, clock)
      leased = this.#target.serving === of ? this.#leasedWith(of, feeds, decoded, checked) : null
    } catch (error) {
      return refused(of, error, checked.signal)
    }
    const elapsedMs = clock.nowMs() - startMs
    stats.decoded(elapsedMs)
    const left = leftOf(options, elapsedMs)
    if (leased !== null) return this.inferLeased(leased, left)
    // What has replaced the model may have other images.
    return this.infer(this.#target.serving === of ? { ...feeds, ...tensorsOf(decoded, joining.metadata) } : feeds, left)
  }

  /** Rows with the images of a request, if these are all that it has; `null` where there can be no lease. */
  #leasedWith(of: ModelLifecycle, feeds: Feeds, decoded: readonly DecodedImage[], { sequence }: CheckedOptions): LeasedFrom | null {
    const { shown } = of.scheduler!.joining.shaped
    const isWhole = shown.inputs.every(({ name }) => decoded.some((image) => image.name === name) || of.optionalInputs.includes(name))
    const leasable = of.state === 'ready' && sequence === undefined && isWhole && Object.keys(feeds).length === decoded.length
    const leases = leasable ? of.leases.lendIfAny() : null
    return leases === null ? null : { of, leases, rows: leases.takeWith(decoded) }
  }

  /** Runs the rows of a lease: where they lie, or by what has replaced the model that they are of, in a copy. */
  async inferLeased(leased: LeasedFrom, options: InferOptions<string, boolean> = {}): Promise<Answer> {
    const { serving } = this.#target
    let answer: Promise<Answer>
    try {
      answer = this.#inferHeld(serving, leased, options)
    } catch (error) {
      return refused(serving, error)
    }
    return answer
  }

  #inferHeld(serving: ModelLifecycle, { of, leases, rows }: LeasedFrom, options: InferOptions<string, boolean>): Promise<Answer> {
    leases.check(rows)
    if (serving.state !== 'ready') {
      leases.end(rows, 'closed')
      throw notReady(this.#target.name, serving)
    }
    if (serving !== of) {
      leases.end(rows, 'inferred')
      return this.infer(rows.takeCopies(), options)
    }
    const { joining, metadata } = serving.scheduler!
    const checked = checkInferOptions(options, metadata, joining.shaped.offered)
    if (checked.sequence !== undefined) throw notForLeases(metadata.name, 'sequenceId', checked.sequence.id)
    leases.end(rows, 'inferred')
    try {
      return this.#submitHeld(serving, serving.parser!.parse(rows.take()), checked, rows)
    } catch (error) {
      rows.settled() // it has come to no request
      throw error
    }
  }

  async #submitHeld(serving: ModelLifecycle, parsed: ParsedFeeds, checked: CheckedOptions, rows: HeldRows): Promise<Answer> {
    try {
      if (serving.responses === null) return await this.#submit(serving, { ...parsed, leased: rows }, checked, Infinity)
      const answer = this.#submit(serving, parsed, checked, Infinity) // which has made its own copy
      rows.settled()
      return await answer
    } catch (error) {
      rows.settled() // if it has come to no request
      throw error
    }
  }

  #parse(serving: ModelLifecycle, parser: FeedParser, feeds: unknown, checked: CheckedOptions): Promise<Answer> {
    const { maxBatchSize } = serving.scheduler!.joining.metadata
    const split = (checked.splitOversized ?? serving.splitsOversized) && maxBatchSize > 0
    const parsed = parser.parse(feeds, split)
    return this.#submit(serving, parsed, checked, split && !parsed.whole ? maxBatchSize : Infinity)
  }

  #inSequence(serving: ModelLifecycle, feeds: unknown, checked: CheckedOptions): Promise<Answer> {
    const { levels } = serving.scheduler!
    this.#ignored.look(levels, levels.of(checked.priority), checked.priority, checked.timeoutMs)
    return sequencesOfModel(this.#target.name, serving).infer(feeds, checked, checked.sequence!)
  }

  #submit({ scheduler, responses }: ModelLifecycle, parsed: ParsedFeeds, options: CheckedOptions, maxRows: number): Promise<Answer> {
    const { levels, joining, metadata }: Scheduler = scheduler!
    const level = levels.of(options.priority)
    if (options !== joining.plainOptions) this.#ignored.look(levels, level, options.priority, options.timeoutMs)
    if (responses !== null) return responses.infer({ feeds: parsed, maxRows, level, options })
    return new Promise((resolve, reject) => {
      const request =
        parsed.rows > maxRows
          ? new SplitRequest(metadata, parsed, maxRows, level, options, resolve, reject)
          : new InferRequest(parsed, level, options, resolve, reject)
      request.isCall = true
      const { observed, clock } = scheduler!
      if (observed.by.observer !== null) observed.begun(request, options, clock.nowMs())
      scheduler!.submit(request, options)
    })
  }
}
