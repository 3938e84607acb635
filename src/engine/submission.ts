import { checkInferOptions, type CheckedOptions, type InferOptions } from '../options/infer-options.ts'
import type { HeldRows } from '../features/leases/held-rows.ts'
import { notForLeases, type Leases } from '../features/leases/leases.ts'
import { notReady, refused, type ModelLifecycle, type ModelTarget } from './model-target.ts'
import { IgnoredOptions } from '../request/ignored-options.ts'
import { InferRequest, type Answer, type ParsedFeeds } from '../request/infer-request.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import { SplitRequest } from '../schedule/split-request.ts'
import { sequencesOfModel } from './sequence-stream.ts'

/** Held rows, and the model they belong to. */
interface LeasedFrom {
  readonly of: ModelLifecycle
  readonly leases: Leases
  readonly rows: HeldRows
}

/** Turns the calls of a model into requests to the serving model: parses, checks, and submits them to its scheduler. */
export class Submission {
  readonly #target: ModelTarget
  readonly #ignored: IgnoredOptions

  constructor(target: ModelTarget) {
    this.#target = target
    this.#ignored = new IgnoredOptions(target.name)
  }

  /** See {@link Model.infer}. */
  infer(feeds: unknown, options?: InferOptions<string, boolean>): Promise<Answer> {
    const { serving } = this.#target // one model for the whole request, whatever is loaded meanwhile
    const { state, scheduler, parser, pipeline } = serving
    if (state === 'ready' && pipeline !== null) return pipeline.infer(feeds, options)
    if (state !== 'ready' || scheduler === null || parser === null)
      return refused(serving, notReady(this.#target.name, serving))
    try {
      const { plainOptions, shaped } = scheduler.joining
      const checked =
        options === undefined ? plainOptions : checkInferOptions(options, scheduler.metadata, shaped.offered)
      if (checked.sequence !== undefined) return this.#inSequence(serving, feeds, checked)
      if (serving.images !== null && checked.signal?.aborted)
        return refused(serving, checked.signal.reason, checked.signal)
      const images = serving.images === null ? null : serving.images.read(feeds)
      const { maxBatchSize } = scheduler.joining.metadata
      const split = (checked.splitOversized ?? serving.splitsOversized) && maxBatchSize > 0
      const read = parser.parse(images === null ? feeds : images.feeds, split)
      const parsed = images === null ? read : { ...read, preparation: images.preparation }
      return this.#submit(serving, parsed, checked, split && !parsed.whole ? maxBatchSize : Infinity)
    } catch (error) {
      return refused(serving, error)
    }
  }

  /** Runs the rows of a lease in place or, if their model has been replaced, as a copy by the new model. */
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

  #inferHeld(
    serving: ModelLifecycle,
    { of, leases, rows }: LeasedFrom,
    options: InferOptions<string, boolean>,
  ): Promise<Answer> {
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
      rows.settled() // it did not become a request
      throw error
    }
  }

  async #submitHeld(
    serving: ModelLifecycle,
    parsed: ParsedFeeds,
    checked: CheckedOptions,
    rows: HeldRows,
  ): Promise<Answer> {
    try {
      if (serving.responses === null)
        return await this.#submit(serving, { ...parsed, leased: rows }, checked, Infinity)
      const answer = this.#submit(serving, parsed, checked, Infinity) // which has made its own copy
      rows.settled()
      return await answer
    } catch (error) {
      rows.settled() // if it did not become a request
      throw error
    }
  }

  #inSequence(serving: ModelLifecycle, feeds: unknown, checked: CheckedOptions): Promise<Answer> {
    const { levels } = serving.scheduler!
    this.#ignored.look(levels, levels.of(checked.priority), checked.priority, checked.timeoutMs)
    return sequencesOfModel(this.#target.name, serving).infer(feeds, checked, checked.sequence!)
  }

  #submit(
    { scheduler, responses }: ModelLifecycle,
    parsed: ParsedFeeds,
    options: CheckedOptions,
    maxRows: number,
  ): Promise<Answer> {
    const { levels, joining, metadata }: Scheduler = scheduler!
    const level = levels.of(options.priority)
    if (options !== joining.plainOptions)
      this.#ignored.look(levels, level, options.priority, options.timeoutMs)
    if (responses !== null) return responses.infer({ feeds: parsed, maxRows, level, options })
    let request!: InferRequest
    const answer = new Promise<Answer>((resolve, reject) => {
      request =
        parsed.rows > maxRows
          ? new SplitRequest(metadata, parsed, maxRows, level, options, resolve, reject)
          : new InferRequest(parsed, level, options, resolve, reject)
    })
    request.isCall = true
    const { observed, clock } = scheduler!
    if (observed.by.observer !== null) observed.begun(request, options, clock.nowMs())
    scheduler!.submit(request, options)
    return answer
  }
}
