import type { InferenceError } from '../errors.ts'
import type { ModelStats } from '../observe/model-stats.ts'
import type { RejectionReason } from '../observe/rejections.ts'
import type { RequestErrors } from './failures.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { RequestCosts } from '../request/request-costs.ts'
import type { BusyWorker, Estimator } from './estimator.ts'
import { SplitRequest } from './split-request.ts'

/** Says at once what waiting would only say later: that a queue is full, or a deadline out of reach. */
export class Admission {
  readonly #times: Estimator
  readonly #errors: RequestErrors
  readonly #stats: ModelStats
  readonly #costs: RequestCosts | null

  /** @param costs `null` where nothing is said of what requests cost. */
  constructor(times: Estimator, errors: RequestErrors, stats: ModelStats, costs: RequestCosts | null) {
    this.#costs = costs
    this.#times = times
    this.#errors = errors
    this.#stats = stats
  }

  /** Rejects a request that was aborted before its call. */
  refuseAborted(request: InferRequest, reason: unknown): void {
    this.#stats.refused('cancelled')
    request.fail(reason, true)
  }

  /**
   * Why a request cannot be accepted; `null` when it can.
   *
   * @param deadlineMs 0 for none.
   * @param rowsAhead rows that wait before it.
   */
  refusal(
    request: InferRequest,
    deadlineMs: number,
    rowsAhead: number,
    instances: { readonly serving: readonly { readonly worker: BusyWorker }[] },
    nowMs: number,
  ): InferenceError | null {
    const { level, bucketKey, rows } = request
    const tooDear = this.weigh(request)
    if (tooDear !== null) return tooDear
    this.#times.arrived(rows, nowMs)
    if (level.full) {
      this.#count(request, 'queueFull')
      const retryAfterMs = Math.max(1, Math.ceil(level.waiting * this.#times.throughput.msPerRequest))
      return this.#errors.queueFull(request, level.policy.maxQueueSize, retryAfterMs)
    }
    if (deadlineMs === 0) return null
    // One that is split is answered with its last part, which waits behind the others.
    const last = request instanceof SplitRequest ? request.parts.at(-1)! : request
    const ready = request.preparation?.estimate(level)
    const estimatedMs = this.#times.estimatedAnswerMs(
      bucketKey,
      last.rows,
      rowsAhead + rows - last.rows,
      instances.serving,
      nowMs,
      ready,
    )
    if (estimatedMs <= deadlineMs) return null
    this.#count(request, 'deadline')
    return this.#errors.hopeless(request, deadlineMs, estimatedMs)
  }

  /** Notes what a request costs, or each part of it; returns why it is refused. What is not ready is to be weighed when it is. */
  weigh(request: InferRequest): InferenceError | null {
    const costs = this.#costs
    if (costs === null || request.preparation !== null) return null
    for (const part of request instanceof SplitRequest ? request.parts : [request]) {
      const refusal = costs.weigh(part)
      if (refusal === null) continue
      if (request.account === null) this.#stats.refused('invalid')
      return refusal
    }
    return null
  }

  #count({ account }: InferRequest, why: RejectionReason): void {
    if (account === null) this.#stats.failed(why, 0)
  }

  /** The error of a waiting request whose deadline cannot be met any more. */
  hopeless(request: InferRequest, nowMs: number): InferenceError {
    const limitMs = request.deadlineAtMs! - request.enqueuedAtMs
    return this.#errors.hopeless(request, limitMs, this.#times.bestAnswerMs(request, nowMs))
  }
}
