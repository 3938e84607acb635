import type { AnswerOptions } from '../options/infer-options.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { BatchTimes } from '../observe/model-counts.ts'
import { type PriorityLevel, InferRequest, type Answer, type ParsedFeeds } from '../request/infer-request.ts'
import { joinRows, splitRows } from '../request/split.ts'
import type { Outcome } from './answer-order.ts'

/** Where parts wait. */
interface PartQueue {
  /** Returns whether a bucket has become full by it. */
  enqueue(part: RequestPart, nowMs: number): boolean
}

/**
 * A request of more rows than fit a batch. It never waits itself: its parts do, and run as requests of their own. To
 * all others it is one request, with one place among the answers, one end and one entry in the statistics.
 */
export class SplitRequest extends InferRequest {
  readonly parts: readonly RequestPart[]
  /** When the first of its parts began, in milliseconds. */
  begunAtMs = Infinity
  /** What the runs of its parts took, summed. */
  readonly times: { -readonly [Part in keyof BatchTimes]: number } = { inputMs: 0, inferMs: 0, outputMs: 0 }
  readonly #model: string
  readonly #described: ModelMetadata['outputs']
  readonly #answers: Answer[] = [] // by part
  #withdraw: (part: RequestPart) => void = nothing
  #missing: number

  constructor(
    { name, inputs, outputs }: Pick<ModelMetadata, 'name' | 'inputs' | 'outputs'>,
    feeds: ParsedFeeds,
    maxRows: number,
    level: PriorityLevel,
    options: AnswerOptions,
    resolve: (answer: Answer) => void,
    reject: (reason: unknown) => void,
  ) {
    super(feeds, level, options, resolve, reject)
    this.parts = splitRows(feeds, maxRows, inputs).map(
      (part, index) => new RequestPart(this, index, part, level, options),
    )
    this.#model = name
    this.#described = outputs
    this.#missing = this.parts.length
  }

  /**
   * Lets its parts wait, within the limits that it has itself.
   *
   * @param withdraw takes a part out of wherever it waits.
   * @returns whether a bucket has become full by it.
   */
  enqueue(queue: PartQueue, nowMs: number, withdraw: (part: RequestPart) => void): boolean {
    this.enqueuedAtMs = nowMs
    this.#withdraw = withdraw
    let full = false
    for (const part of this.parts) {
      part.deadlineAtMs = this.deadlineAtMs
      part.timeoutAtMs = this.timeoutAtMs
      part.maxRunMs = this.maxRunMs
      full = queue.enqueue(part, nowMs) || full
    }
    return full
  }

  /** Notes a run that a part took part in. */
  ran(begunAtMs: number, { inputMs, inferMs, outputMs }: BatchTimes): void {
    this.begunAtMs = Math.min(this.begunAtMs, begunAtMs)
    this.times.inputMs += inputMs
    this.times.inferMs += inferMs
    this.times.outputMs += outputMs
  }

  /** Notes the answer to a part; returns how the request has ended when it was the last one, else `null`. */
  answered({ index }: RequestPart, answer: Answer): Outcome | null {
    this.#answers[index] = answer
    if (--this.#missing > 0) return null
    try {
      return {
        answer: joinRows(this.#answers, {
          model: this.#model,
          outputs: this.#described,
          rows: this.parts.map(({ rows }) => rows),
          report: this.wanted.report,
          requestId: this.requestId,
        }),
      }
    } catch (reason) {
      return { reason }
    }
  }

  override fail(reason: unknown, isWithdrawn = false): boolean {
    const settled = super.fail(reason, isWithdrawn)
    if (settled) this.withdraw()
    return settled
  }

  /** Takes back what is left of it: it has ended, and its caller waits for no other part. */
  withdraw(): void {
    for (const part of this.parts) if (part.fail(null)) this.#withdraw(part)
  }
}

/** Some rows of a {@link SplitRequest}. It is settled as every request is, but has no caller of its own. */
export class RequestPart extends InferRequest {
  readonly parent: SplitRequest
  readonly index: number

  constructor(
    parent: SplitRequest,
    index: number,
    feeds: ParsedFeeds,
    level: PriorityLevel,
    options: AnswerOptions,
  ) {
    super(feeds, level, options, nothing, nothing)
    this.parent = parent
    this.index = index
    this.account = parent
  }
}

/** The request that a caller made: the request itself, or the one that it is a part of. */
export function wholeOf(request: InferRequest): InferRequest {
  return request instanceof RequestPart ? request.parent : request
}

function nothing(): void {}
