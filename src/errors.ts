import { cut, describe, receivedOf } from './describe.ts'

/**
 * The stable codes of {@link InferenceError}; a caller branches on these, never on messages.
 *
 * | code | meaning |
 * |---|---|
 * | `ERR_INVALID_ARG` | an argument is wrong: name, type, rank, dims, rows over the limit |
 * | `ERR_MODEL_CONFIG` | a configuration contradicts itself or the model |
 * | `ERR_MODEL_NOT_FOUND` | no model of that name, or no such version of it, or no model file at that path |
 * | `ERR_MODEL_LOAD` | ONNX Runtime, or the Node binding, cannot serve the file; one of its rows is too large for any memory; a function's module or its `setup` cannot be run; too many files are open to look at it; an execution provider that has to be there cannot be used; or no worker thread could be started |
 * | `ERR_MODEL_IN_USE` | the model cannot be unloaded, as a pipeline has it as a step |
 * | `ERR_MODEL_NOT_READY` | the model is still loading, or has failed |
 * | `ERR_QUEUE_FULL` | the queue is at its limit; see `retryAfterMs` |
 * | `ERR_TIMEOUT` | the request's `timeoutMs` ran out before its run began, or `maxRunMs` while it ran; its stack shows the async functions that await the call |
 * | `ERR_DEADLINE` | the request's deadline cannot be met; see `estimatedMs` |
 * | `ERR_CLOSED` | the model or the engine is closing or closed |
 * | `ERR_INSTANCE_CRASHED` | the worker died over the request's run |
 * | `ERR_SEQUENCE_ENDED` | the sequence has not begun, or has ended: by its last request, by being idle for too long, with its model or a worker |
 * | `ERR_EXECUTION` | ONNX Runtime, or a function, failed the run (`cause` carries its message), or its outputs cannot be served |
 * | `ERR_NATIVE_LOAD` | a native part cannot be loaded: onnxruntime-node, sharp (by an image), the addon (asked for by name) |
 * | `ERR_PLATFORM` | there can be no engine in this process: another runtime than Node.js, too old a version of it, or musl |
 * | `ERR_DISCONNECTED` | the serving process cannot be reached, or has gone while the request was with it |
 * | `ERR_LEASE_ENDED` | the rows of a lease were used after its end: they were run or released, or it was held for too long |
 * | `ERR_IMAGE_DECODE` | no image file that can be read, no image that can be decoded, or one over a limit; `argument` names the option |
 */
export type InferenceErrorCode =
  | 'ERR_INVALID_ARG'
  | 'ERR_MODEL_CONFIG'
  | 'ERR_MODEL_NOT_FOUND'
  | 'ERR_MODEL_LOAD'
  | 'ERR_MODEL_IN_USE'
  | 'ERR_MODEL_NOT_READY'
  | 'ERR_QUEUE_FULL'
  | 'ERR_TIMEOUT'
  | 'ERR_DEADLINE'
  | 'ERR_CLOSED'
  | 'ERR_INSTANCE_CRASHED'
  | 'ERR_SEQUENCE_ENDED'
  | 'ERR_EXECUTION'
  | 'ERR_NATIVE_LOAD'
  | 'ERR_PLATFORM'
  | 'ERR_DISCONNECTED'
  | 'ERR_IMAGE_DECODE'
  | 'ERR_LEASE_ENDED'

/** What an {@link InferenceError} may carry besides its code and message. */
export interface InferenceErrorDetails {
  /** Name of the model concerned. */
  model?: string
  /** The argument, option, input or output that is wrong. */
  name?: string
  /** What would have been right, in words or as a value. */
  expected?: unknown
  /**
   * What came instead: a short primitive, or a short array of those, as it was; of anything else its description, so that
   * the error keeps nobody's data and can be serialised.
   */
  received?: unknown
  /** When a refused request may be worth another try, in milliseconds (`ERR_QUEUE_FULL`). */
  retryAfterMs?: number
  /** When the request would have been answered by what runs have taken so far, in milliseconds from its call (`ERR_DEADLINE`). */
  estimatedMs?: number
  /** The `requestId` the caller gave, if any. */
  requestId?: string
  /** Name of the step of the pipeline {@link model} that failed; the error of the step's own model is the `cause`. */
  step?: string
  /** The underlying error. */
  cause?: unknown
}

/** In characters. What is longer ends with its length; the whole of what ONNX Runtime said is in `cause`. */
const longestMessage = 4000
const longestName = 200
const longestExpected = 1000

/** The one error class of the library; tell failures apart by {@link InferenceError.code}. */
export class InferenceError extends Error {
  override readonly name = 'InferenceError'
  /** What kind of failure it is. */
  readonly code: InferenceErrorCode
  /** The model that was asked, where one was. */
  declare readonly model?: string
  /** The argument, option or setting that is wrong. */
  declare readonly argument?: string
  /** What it should have been. */
  declare readonly expected?: unknown
  /** What was given instead. */
  declare readonly received?: unknown
  /** Of `ERR_QUEUE_FULL`: when there is likely to be a place, in milliseconds. */
  declare readonly retryAfterMs?: number
  /** Of `ERR_DEADLINE`: how long it would have taken to the answer, in milliseconds. */
  declare readonly estimatedMs?: number
  /** The request's own name, as it was given. */
  declare readonly requestId?: string
  /** Of a pipeline: the step that failed. */
  declare readonly step?: string

  constructor(code: InferenceErrorCode, message: string, details: InferenceErrorDetails = {}) {
    super(
      cut(message, longestMessage),
      Object.hasOwn(details, 'cause') && details.cause !== undefined ? { cause: details.cause } : undefined,
    )
    this.code = code
    // Property by property: an overloaded model makes one of these for every request it refuses.
    const fields: Record<string, unknown> = this as never
    for (const field of Object.keys(details) as (keyof InferenceErrorDetails)[]) {
      const value = details[field]
      if (field === 'received') fields['received'] = receivedOf(value)
      else if (field === 'name')
        fields['argument'] = typeof value === 'string' ? cut(value, longestName) : undefined
      else if (field === 'expected')
        fields['expected'] = typeof value === 'string' ? cut(value, longestExpected) : value
      else if (field !== 'cause') fields[field] = value
    }
  }

  /** What `JSON.stringify` writes: all that it carries but `cause` and `stack`. */
  toJSON(): object {
    return { ...this, message: this.message }
  }
}

/** The one formatter for wrong arguments: which name, what was expected, what was received. */
export function invalidArgument(
  name: string,
  expected: string,
  received: unknown,
  details: Omit<InferenceErrorDetails, 'name' | 'expected' | 'received'> & {
    hint?: string
    code?: InferenceErrorCode
  } = {},
): InferenceError {
  const { hint, code = 'ERR_INVALID_ARG', model, ...rest } = own(details)
  const where = model === undefined ? '' : ` of model '${cut(model, longestName)}'`
  const after = hint === undefined ? '' : `. ${hint}`
  const message = `${cut(name, longestName)}${where}: expected ${expected}, received ${describe(received)}${after}`
  return new InferenceError(code, message, {
    ...rest,
    ...(model === undefined ? {} : { model }),
    name,
    expected,
    received,
  })
}

/** What the caller's own code threw (a getter, a proxy) while an argument of theirs was read. */
export function unreadable(
  name: string,
  cause: unknown,
  details: { model?: string; code?: InferenceErrorCode } = {},
): InferenceError {
  return invalidArgument(name, 'a value that can be read', cause, {
    ...details,
    hint: 'Reading it has thrown; see cause',
    cause,
  })
}

/** Without what a changed `Object.prototype` would add. */
function own<T extends object>(object: T): T {
  return { __proto__: null, ...object } as T
}
