import { InferenceError, type InferenceErrorCode, type InferenceErrorDetails } from '../errors.ts'
import type { UndividedOutput } from '../request/output-rows.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { Batch, FinishedBatch } from './batch.ts'
import { warn } from '../base/warnings.ts'
import { type Clock, Alarm } from '../base/clock.ts'
import type { InstanceSet } from './instance-set.ts'
import type { Answers } from './answers.ts'

/** The errors a request of `model` may be rejected with, in one place. */
export class RequestErrors {
  readonly model: string
  readonly #rerunAfterCrash: boolean

  constructor(model: string, rerunAfterCrash: boolean) {
    this.model = model
    this.#rerunAfterCrash = rerunAfterCrash
  }

  timedOut(request: InferRequest): InferenceError {
    const limitMs = Math.round(request.timeoutAtMs! - request.enqueuedAtMs)
    const message =
      `waited in the queue of model '${this.model}' longer than its ${limitMs} ms; ` +
      'raise timeoutMs (or defaultTimeoutMs of its level), lower maxQueueDelayMs, or send fewer requests at once'
    return this.#error('ERR_TIMEOUT', request, message)
  }

  /** @param limitMs the longest that a run may take. */
  ranTooLong(request: InferRequest, limitMs: number): InferenceError {
    const message = `was part of a run of model '${this.model}' that took more than its ${limitMs} ms (maxRunMs); raise maxRunMs, or send fewer rows`
    return this.#error('ERR_TIMEOUT', request, message, { expected: `a run of at most ${limitMs} ms` })
  }

  queueFull(request: InferRequest, maxQueueSize: number, retryAfterMs: number): InferenceError {
    const message = `found the queue of model '${this.model}' full: ${maxQueueSize} requests are waiting; try again in ${retryAfterMs} ms`
    return this.#error('ERR_QUEUE_FULL', request, message, {
      expected: `fewer than ${maxQueueSize} waiting`,
      retryAfterMs,
    })
  }

  /** @param limitMs what the request has, from its call on. */
  hopeless(request: InferRequest, limitMs: number, estimatedMs: number): InferenceError {
    const rounded = Math.max(1, Math.round(estimatedMs))
    const withinMs = Number(limitMs.toFixed(3)) // a difference of two times
    const message =
      `would be answered by model '${this.model}' about ${rounded} ms after its call, and its deadline is ${withinMs} ms; ` +
      'allow more time, or send fewer requests at once'
    return this.#error('ERR_DEADLINE', request, message, {
      expected: `an answer within ${withinMs} ms`,
      estimatedMs: rounded,
    })
  }

  nonFinite(request: InferRequest, output: string): InferenceError {
    const message = `has an answer of model '${this.model}' whose output '${output}' is not finite (rejectNonFinite)`
    return this.#error('ERR_EXECUTION', request, message, {
      name: output,
      expected: 'finite numbers',
      received: 'NaN or infinity',
    })
  }

  closed(request: InferRequest): InferenceError {
    return this.#error('ERR_CLOSED', request, `was not answered yet when model '${this.model}' was closed`)
  }

  crashed(request: InferRequest, reason: string): InferenceError {
    const next = this.#rerunAfterCrash
      ? 'it was run again alone, and seems to be the cause'
      : 'send it again, or load the model with rerunAfterCrash: true'
    return this.#lost(request, reason, next)
  }

  /** As {@link crashed}, for a request that waited when the model was given up. */
  givenUp(request: InferRequest, reason: string): InferenceError {
    return this.#lost(request, reason, 'load the model again')
  }

  #lost(request: InferRequest, reason: string, next: string): InferenceError {
    const message = `was lost with the worker of model '${this.model}': ${reason}; ${next}`
    return this.#error('ERR_INSTANCE_CRASHED', request, message, { cause: new Error(reason) })
  }

  failedRun(request: InferRequest, reason: string): InferenceError {
    return this.#error('ERR_EXECUTION', request, `failed in model '${this.model}': ${reason}`, {
      cause: new Error(reason),
    })
  }

  /** The run of the request alone says of its entries what cannot be true. */
  undivided(request: InferRequest, { message, output, expected, received }: UndividedOutput): InferenceError {
    return this.#error('ERR_EXECUTION', request, `failed in model '${this.model}': ${message}`, {
      name: output,
      expected,
      received,
    })
  }

  /** The error of one request as that of another, which shared its run. */
  ofOther(error: InferenceError, from: InferRequest, to: InferRequest): InferenceError {
    const details: InferenceErrorDetails = {}
    for (const field of shared) if (error[field] !== undefined) details[field] = error[field] as never
    if (error.argument !== undefined) details.name = error.argument
    const { code, message } = error
    const own = message.startsWith(shown(from)) ? `${shown(to)}${message.slice(shown(from).length)}` : message
    return this.#make(code, to, own, details)
  }

  #error(
    code: InferenceErrorCode,
    request: InferRequest,
    message: string,
    details: InferenceErrorDetails = {},
  ): InferenceError {
    return this.#make(code, request, `${shown(request)} ${message}.`, details)
  }

  #make(
    code: InferenceErrorCode,
    { requestId }: InferRequest,
    message: string,
    details: InferenceErrorDetails,
  ): InferenceError {
    const { stackTraceLimit } = Error
    // The stack here is the scheduler's own; taking it costs more than serving a request, just when there are too many. A time-out gets its caller's (rejectCaller).
    Error.stackTraceLimit = 0
    const error = new InferenceError(code, message, {
      model: this.model,
      ...details,
      ...(requestId === undefined ? {} : { requestId }),
    })
    Error.stackTraceLimit = stackTraceLimit
    return error
  }
}

/** What the errors of two requests over one run have in common, but for their words. */
const shared = ['expected', 'received', 'retryAfterMs', 'estimatedMs', 'cause'] as const

function shown({ requestId }: InferRequest): string {
  return requestId === undefined ? 'The request' : `Request '${requestId}'`
}

/**
 * What becomes of the requests of a run that failed: they are run again, before anything else that waits, or rejected.
 */
export class Retries {
  readonly #batches: Pick<Batch, 'requests' | 'reason' | 'isExclusive'>[] = []
  readonly #rerunAfterCrash: boolean
  readonly #answers: Answers
  readonly #errors: RequestErrors
  #hasWarned = false
  /** Requests waiting for another run; a field, as it is asked for at every turn. */
  count = 0

  constructor(rerunAfterCrash: boolean, answers: Answers, errors: RequestErrors) {
    this.#rerunAfterCrash = rerunAfterCrash
    this.#answers = answers
    this.#errors = errors
  }

  /** A run failed. */
  failed(batch: Batch, message: string): void {
    if (batch.rerun !== null) return this.#afterStop(batch)
    if (batch.requests.length > 1) return this.#bisect(batch)
    for (const request of batch.requests)
      this.#answers.failed(request, this.#errors.failedRun(request, message))
  }

  /** What a run says of whose its entries are cannot be true: the request that it comes from is looked for, as one that fails a run. */
  undivided(batch: FinishedBatch, error: UndividedOutput): void {
    if (batch.requests.length > 1) {
      this.#warnOfUndivided(error.message)
      return this.#bisect(batch)
    }
    for (const request of batch.requests)
      this.#answers.failed(request, this.#errors.undivided(request, error))
  }

  #warnOfUndivided(message: string): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const text = `A run of model '${this.#errors.model}' could not be divided among its requests, which are run again in halves: ${message}. If this is not the fault of one caller, check the option rows of its outputs, or set maxBatchSize to 0.`
    warn('ZEROHOP_NOT_DIVIDED', text)
  }

  /** The thread of a run has ended; with `died` the run may be what it died of. */
  lost(batch: Batch, reason: string, died: boolean): void {
    if (!died) return this.#afterStop(batch)
    for (const request of this.#afterDeath(batch))
      this.#answers.failed(request, this.#errors.crashed(request, reason), 'crashed')
  }

  /** Whether the next one is to be on its worker alone. */
  get nextIsAlone(): boolean {
    return this.#batches[0]?.isExclusive === true
  }

  /**
   * A run failed for several requests: runs its halves. With one culprit among n requests that makes two runs per
   * halving, 2 ceil(log2 n) in all, and every request is run at most 1 + ceil(log2 n) times whatever fails.
   */
  #bisect({ requests, reason }: Pick<Batch, 'requests' | 'reason'>): void {
    const open = requests.filter(({ settled }) => !settled)
    const middle = Math.ceil(open.length / 2)
    this.#add(open.slice(0, middle), reason, false)
    this.#add(open.slice(middle), reason, false)
  }

  /** A run was stopped: runs what is left of it, whole, in halves or each by itself. */
  #afterStop(batch: Pick<Batch, 'requests' | 'reason' | 'rerun'>): void {
    if (batch.rerun === 'halves') this.#bisect(batch)
    else if (batch.rerun === 'singly')
      for (const request of batch.requests) this.#add(request.settled ? [] : [request], batch.reason, false)
    else
      this.#add(
        batch.requests.filter(({ settled }) => !settled),
        batch.reason,
        false,
      )
  }

  /**
   * A worker died under this batch: runs each of its requests by itself, where that is allowed and none had died under it
   * before.
   *
   * @returns the requests that are not run again.
   */
  #afterDeath({ requests, reason }: Batch): readonly InferRequest[] {
    if (!this.#rerunAfterCrash) return requests
    const lost = requests.filter(({ crashed }) => crashed)
    for (const request of requests) {
      if (request.settled || request.crashed) continue
      request.crashed = true
      this.#add([request], reason, true)
    }
    return lost
  }

  /** Takes the next batch out; `null` for none. */
  take(): Pick<Batch, 'requests' | 'reason' | 'isExclusive'> | null {
    const next = this.#batches.shift()
    if (next === undefined) return null
    this.count -= next.requests.length
    return next
  }

  /** Puts a batch back that was taken out and has not run. */
  putBack({ requests, reason, isExclusive }: Batch): void {
    if (requests.length === 0) return
    this.#batches.unshift({ requests, reason, isExclusive })
    this.count += requests.length
  }

  /** Leaves a request out that was withdrawn; false when it is not here. */
  cancel(request: InferRequest): boolean {
    const at = this.#batches.findIndex(({ requests }) => requests.includes(request))
    if (at === -1) return false
    const batch = this.#batches[at]!
    const requests = batch.requests.filter((other) => other !== request)
    this.#batches.splice(at, 1, ...(requests.length > 0 ? [{ ...batch, requests }] : []))
    this.count--
    return true
  }

  /** Takes everything out. */
  clear(): InferRequest[] {
    this.count = 0
    return this.#batches.splice(0).flatMap(({ requests }) => requests)
  }

  #add(requests: readonly InferRequest[], reason: Batch['reason'], isExclusive: boolean): void {
    if (requests.length === 0) return
    this.#batches.push({ requests, reason, isExclusive })
    this.count += requests.length
  }
}

/** What a {@link RunStops} works with. */
interface StopTargets {
  readonly clock: Clock
  readonly instances: InstanceSet
  readonly answers: Answers
  readonly errors: RequestErrors
}

interface Run {
  readonly batch: Batch
  readonly startedAtMs: number
}

/**
 * Stops runs: those whose callers are all gone, and those that take longer than they may. A request with a limit of
 * its own is rejected as soon as that has passed. The model's limit says only that some request of the batch takes too long:
 * which one, runs of its halves find out; of each by itself where a stop costs the thread, as with functions.
 */
export class RunStops {
  readonly #modelMs: number
  readonly #inParts: 'halves' | 'singly'
  readonly #to: StopTargets
  readonly #alarm: Alarm
  /** Runs that have a limit, by their batch's number. */
  readonly #runs = new Map<number, Run>()
  /** Whether any run may have a limit: else nothing here is called. */
  limited: boolean

  /** @param modelMs the model's limit; 0 for none. */
  constructor(modelMs: number, to: StopTargets, inParts: 'halves' | 'singly' = 'halves') {
    this.#modelMs = modelMs
    this.#inParts = inParts
    this.#to = to
    this.limited = modelMs > 0
    this.#alarm = new Alarm(to.clock, () => this.#look())
  }

  /** The limit that a request has of its own, which asks for `askedMs`; 0 for none. */
  ownLimitMs(askedMs: number | undefined): number {
    if (askedMs === undefined) return 0
    this.limited = true
    return askedMs
  }

  /** The run of a batch begins. */
  started(batch: Batch): void {
    const limitMs = this.#firstLimitMs(batch, 0)
    if (limitMs === Infinity) return
    const startedAtMs = this.#to.clock.nowMs()
    batch.limited = true
    this.#runs.set(batch.id, { batch, startedAtMs })
    this.#alarm.set(startedAtMs + limitMs)
  }

  /** It is over. */
  ended({ id }: Pick<Batch, 'id'>): void {
    if (this.#runs.delete(id) && this.#runs.size === 0) this.#alarm.clear()
  }

  /** Stops the run that a request is part of, unless another request in it still wants an answer. */
  unwanted(request: InferRequest): void {
    const { instances } = this.#to
    const batch = instances.batches.find(({ requests }) => requests.includes(request))
    if (batch?.requests.every(({ settled }) => settled)) instances.stopRun(batch, false)
  }

  /** Rejects all that runs, what came first before the others, and stops it. */
  all(): void {
    const { instances, answers, errors } = this.#to
    for (const batch of instances.batches.sort((a, b) => a.formed - b.formed)) {
      for (const request of batch.requests) answers.reject(request, 'closed', errors.closed(request))
      instances.stopRun(batch, true)
    }
  }

  #look(): void {
    for (const [id, { batch, startedAtMs }] of this.#runs) {
      const tookMs = this.#to.clock.nowMs() - startedAtMs
      this.#check(batch, tookMs)
      const nextMs = this.#firstLimitMs(batch, tookMs)
      if (nextMs !== Infinity && this.#runs.has(id)) this.#alarm.set(startedAtMs + nextMs)
    }
  }

  /** The first limit of a run that comes after `tookMs`; `Infinity` for none. */
  #firstLimitMs({ requests }: Batch, tookMs: number): number {
    let firstMs = Infinity
    for (let member = 0; member < requests.length; member++) {
      const limitMs = requests[member]!.maxRunMs || this.#modelMs
      if (limitMs > tookMs && limitMs < firstMs) firstMs = limitMs
    }
    return firstMs
  }

  #check(batch: Batch, tookMs: number): void {
    const { answers, errors, instances } = this.#to
    for (const request of batch.requests) {
      const limitMs = request.maxRunMs || this.#modelMs
      if (request.settled || limitMs === 0 || limitMs > tookMs) continue
      batch.rerun ??= 'all'
      const isIt = request.maxRunMs > 0 || batch.requests.length === 1
      if (isIt) answers.reject(request, 'timeout', errors.ranTooLong(request, limitMs))
      else batch.rerun = this.#inParts
    }
    if (batch.rerun !== null) instances.stopRun(batch, true)
  }
}
