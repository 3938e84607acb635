import { InferenceError, type InferenceErrorCode, type InferenceErrorDetails } from '../errors.ts'
import type { UndividedOutput } from '../request/output-rows.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** The errors a request of `model` may be rejected with, in one place. */
export class RequestErrors {
  readonly #model: string
  readonly #rerunAfterCrash: boolean

  constructor(model: string, rerunAfterCrash: boolean) {
    this.#model = model
    this.#rerunAfterCrash = rerunAfterCrash
  }

  timedOut(request: InferRequest): InferenceError {
    const limitMs = Math.round(request.timeoutAtMs! - request.enqueuedAtMs)
    const message =
      `waited in the queue of model '${this.#model}' longer than its ${limitMs} ms; ` +
      'give it more time (timeoutMs, or defaultTimeoutMs of its level), lower maxQueueDelayMs, or send less at once'
    return this.#error('ERR_TIMEOUT', request, message)
  }

  /** @param limitMs the longest that a run may take. */
  ranTooLong(request: InferRequest, limitMs: number): InferenceError {
    const message = `was part of a run of model '${this.#model}' that took more than its ${limitMs} ms (maxRunMs); give it more time, or fewer rows`
    return this.#error('ERR_TIMEOUT', request, message, { expected: `a run of at most ${limitMs} ms` })
  }

  queueFull(request: InferRequest, maxQueueSize: number, retryAfterMs: number): InferenceError {
    const message = `found the queue of model '${this.#model}' full: ${maxQueueSize} requests wait already; try again in ${retryAfterMs} ms`
    return this.#error('ERR_QUEUE_FULL', request, message, {
      expected: `fewer than ${maxQueueSize} waiting`,
      retryAfterMs,
    })
  }

  /** @param limitMs what the request has, from its call on. */
  hopeless(request: InferRequest, limitMs: number, estimatedMs: number): InferenceError {
    const rounded = Math.max(1, Math.round(estimatedMs))
    const message =
      `would be answered by model '${this.#model}' about ${rounded} ms after it was made, its deadline is ${Math.round(limitMs)} ms; ` +
      'give it more time, or send less at once'
    return this.#error('ERR_DEADLINE', request, message, {
      expected: `an answer within ${limitMs} ms`,
      estimatedMs: rounded,
    })
  }

  nonFinite(request: InferRequest, output: string): InferenceError {
    const message = `has an answer of model '${this.#model}' whose output '${output}' is not finite (rejectNonFinite)`
    return this.#error('ERR_EXECUTION', request, message, {
      name: output,
      expected: 'finite numbers',
      received: 'NaN or infinity',
    })
  }

  closed(request: InferRequest): InferenceError {
    return this.#error('ERR_CLOSED', request, `was not answered yet when model '${this.#model}' was closed`)
  }

  crashed(request: InferRequest, reason: string): InferenceError {
    const next = this.#rerunAfterCrash
      ? 'it was run again by itself, and seems to be what workers die of'
      : 'send it again, or load the model with rerunAfterCrash: true'
    return this.#lost(request, reason, next)
  }

  /** As {@link crashed}, for a request that waited when the model was given up. */
  givenUp(request: InferRequest, reason: string): InferenceError {
    return this.#lost(request, reason, 'load the model again')
  }

  #lost(request: InferRequest, reason: string, next: string): InferenceError {
    const message = `was lost with the worker of model '${this.#model}': ${reason}; ${next}`
    return this.#error('ERR_INSTANCE_CRASHED', request, message, { cause: new Error(reason) })
  }

  failedRun(request: InferRequest, reason: string): InferenceError {
    return this.#error('ERR_EXECUTION', request, `failed in model '${this.#model}': ${reason}`, {
      cause: new Error(reason),
    })
  }

  /** The run of the request alone says of its entries what cannot be true. */
  undivided(request: InferRequest, { message, output, expected, received }: UndividedOutput): InferenceError {
    return this.#error('ERR_EXECUTION', request, `failed in model '${this.#model}': ${message}`, {
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
      model: this.#model,
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
