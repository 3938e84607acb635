import { isPromise } from 'node:util/types'
import {
  InferenceError,
  invalidArgument,
  type InferenceErrorCode,
  type InferenceErrorDetails,
} from '../../errors.ts'
import type { GraphStep } from './pipeline-graph.ts'

/** Fields of a step's error that hold for the pipeline as well. */
const shared = ['expected', 'received', 'retryAfterMs', 'requestId'] as const

/** Makes the errors that a pipeline's request may be rejected with. */
export class StepErrors {
  readonly #pipeline: string

  constructor(pipeline: string) {
    this.#pipeline = pipeline
  }

  /**
   * Turns an error of a step's model into one of the pipeline.
   *
   * @param elapsedMs from the pipeline's call to that of the step.
   * @param deadlineMs of the pipeline's call. The step had what was left of it.
   * @param row the row that failed, of a step that fans out; `null` for none.
   */
  ofStep(
    step: GraphStep,
    reason: unknown,
    elapsedMs: number,
    deadlineMs: number | undefined,
    row: number | null = null,
  ): unknown {
    if (!(reason instanceof InferenceError)) return reason // the signal's own reason
    if (reason.model === this.#pipeline && reason.step === step.name) return reason
    const details: InferenceErrorDetails = { step: step.name, cause: reason }
    for (const field of shared) if (reason[field] !== undefined) details[field] = reason[field] as never
    if (reason.argument !== undefined) details.name = reason.argument
    if (reason.estimatedMs !== undefined) details.estimatedMs = Math.round(reason.estimatedMs + elapsedMs)
    const where = `${this.#shown(step)}${row === null ? '' : `, row ${row}`}`
    if (reason.code !== 'ERR_DEADLINE' || deadlineMs === undefined || details.estimatedMs === undefined)
      return this.#make(reason.code, `${where}: ${reason.message}`, details)
    details.expected = `an answer within ${deadlineMs} ms`
    return this.#make(
      reason.code,
      `${where}: ${requestShown(reason.requestId)} would be answered about ${details.estimatedMs} ms after its call${deadlineText(deadlineMs)}`,
      details,
    )
  }

  /** The estimates of its steps show that a request cannot be answered in time. */
  hopeless(deadlineMs: number, estimatedMs: number, requestId: string | undefined): InferenceError {
    const rounded = Math.max(1, Math.round(estimatedMs))
    const message = `${requestShown(requestId)} would be answered by pipeline '${this.#pipeline}' about ${rounded} ms after its call${deadlineText(deadlineMs)}`
    return this.#make('ERR_DEADLINE', message, {
      expected: `an answer within ${deadlineMs} ms`,
      estimatedMs: rounded,
      requestId,
    })
  }

  /** A step's answer came too late for the steps after it. */
  late(
    step: GraphStep,
    deadlineMs: number,
    elapsedMs: number,
    requestId: string | undefined,
  ): InferenceError {
    const message = `${this.#shown(step)} could begin ${Math.round(elapsedMs)} ms after the call${deadlineText(deadlineMs)}`
    return this.#make('ERR_DEADLINE', message, {
      step: step.name,
      expected: `an answer within ${deadlineMs} ms`,
      estimatedMs: Math.round(elapsedMs),
      requestId,
    })
  }

  /** `when` has thrown, or returned no boolean. */
  ofWhen(step: GraphStep, received: unknown, cause: unknown, requestId: string | undefined): InferenceError {
    const what =
      cause === undefined
        ? `returned ${isPromise(received) ? 'a promise' : typeof received}`
        : `has thrown: ${messageOf(cause)}`
    const message = `${this.#shown(step)}: its when ${what}, where true or false was expected.`
    return this.#make('ERR_EXECUTION', message, {
      step: step.name,
      name: `steps[${step.index}].when`,
      expected: 'true or false',
      received,
      cause,
      requestId,
    })
  }

  /** No model serves a step. */
  notServed(
    step: GraphStep,
    { state, failure }: { readonly state: string; readonly failure: string | null },
    requestId: string | undefined,
  ): InferenceError {
    const closed = state === 'draining' || state === 'closed'
    const message = `${this.#shown(step)}: model '${step.model}' is ${state}${failure === null ? '' : `: ${failure}`}.${closed ? '' : ' Load it again.'}`
    return this.#make(closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY', message, {
      step: step.name,
      expected: 'ready',
      received: state,
      requestId,
    })
  }

  /** The request names a sequence. */
  noSequences(id: unknown): InferenceError {
    return invalidArgument('options.sequenceId', 'to be omitted, as a pipeline has no sequences', id, {
      model: this.#pipeline,
    })
  }

  /** The pipeline was closed before the answer. */
  closed(requestId: string | undefined): InferenceError {
    return this.#make(
      'ERR_CLOSED',
      `The request was not answered yet when pipeline '${this.#pipeline}' was closed.`,
      { requestId },
    )
  }

  /** A request waited too long to begin, while the most allowed were in flight. */
  timedOut(timeoutMs: number, maxInFlight: number, requestId: string | undefined): InferenceError {
    const message = `The request waited longer than its ${Math.round(timeoutMs)} ms before pipeline '${this.#pipeline}', which had ${maxInFlight} requests in flight (maxInFlight); raise timeoutMs, or send fewer requests at once.`
    return this.#make('ERR_TIMEOUT', message, { requestId })
  }

  #shown(step: GraphStep): string {
    return `Step '${step.name}' (steps[${step.index}]) of pipeline '${this.#pipeline}'`
  }

  #make(code: InferenceErrorCode, message: string, details: InferenceErrorDetails): InferenceError {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0 // a stack would show the pipeline's own code, and cost more than a request
    const error = new InferenceError(code, message, { model: this.#pipeline, ...details })
    Error.stackTraceLimit = stackTraceLimit
    return error
  }
}

/** The message of a thrown value. Reading it may throw again. */
function messageOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? `${thrown.message}` : typeof thrown
  } catch {
    return 'what cannot be read'
  }
}

function requestShown(requestId: string | undefined): string {
  return requestId === undefined ? 'The request' : `Request '${requestId}'`
}

function deadlineText(deadlineMs: number): string {
  return `, its deadline is ${Math.round(deadlineMs)} ms; allow more time, or send fewer requests at once.`
}
