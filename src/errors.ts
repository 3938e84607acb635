/**
 * The stable codes of {@link InferenceError}; a caller branches on these, never on messages.
 *
 * | code | meaning |
 * |---|---|
 * | `ERR_INVALID_ARG` | an argument is wrong: name, type, rank, dims, rows over the limit |
 * | `ERR_MODEL_CONFIG` | a configuration contradicts itself or the model |
 * | `ERR_MODEL_NOT_FOUND` | no model of that name, or no file at that path |
 * | `ERR_MODEL_LOAD` | ONNX Runtime, or the Node binding, cannot serve the file |
 * | `ERR_MODEL_NOT_READY` | the model is still loading, or has failed |
 * | `ERR_QUEUE_FULL` | the queue is at its limit; see `retryAfterMs` |
 * | `ERR_TIMEOUT` | the request's `timeoutMs` ran out while it was queued |
 * | `ERR_DEADLINE` | the request's deadline cannot be met; see `estimatedMs` |
 * | `ERR_CLOSED` | the model or the engine is closing or closed |
 * | `ERR_INSTANCE_CRASHED` | the worker died while the request was in flight |
 * | `ERR_EXECUTION` | ONNX Runtime failed the run; `cause` carries its message |
 * | `ERR_NATIVE_LOAD` | a native part cannot be loaded: onnxruntime-node, sharp (by an image), the addon (asked for by name) |
 * | `ERR_IMAGE_DECODE` | the bytes are not an image that can be decoded |
 */
export type InferenceErrorCode =
  | 'ERR_INVALID_ARG'
  | 'ERR_MODEL_CONFIG'
  | 'ERR_MODEL_NOT_FOUND'
  | 'ERR_MODEL_LOAD'
  | 'ERR_MODEL_NOT_READY'
  | 'ERR_QUEUE_FULL'
  | 'ERR_TIMEOUT'
  | 'ERR_DEADLINE'
  | 'ERR_CLOSED'
  | 'ERR_INSTANCE_CRASHED'
  | 'ERR_EXECUTION'
  | 'ERR_NATIVE_LOAD'
  | 'ERR_IMAGE_DECODE'

/** What an {@link InferenceError} may carry besides its code and message. */
export interface InferenceErrorDetails {
  /** Name of the model concerned. */
  model?: string
  /** The argument, option, input or output that is wrong. */
  name?: string
  /** What would have been right, in words or as a value. */
  expected?: unknown
  /** What came instead. */
  received?: unknown
  /** When a refused request may be worth another try, in milliseconds (`ERR_QUEUE_FULL`). */
  retryAfterMs?: number
  /** When the request would have been answered by what runs have taken so far, in milliseconds from its call (`ERR_DEADLINE`). */
  estimatedMs?: number
  /** The `requestId` the caller gave, if any. */
  requestId?: string
  /** The underlying error. */
  cause?: unknown
}

/** The one error class of the library; tell failures apart by {@link InferenceError.code}. */
export class InferenceError extends Error {
  override readonly name = 'InferenceError'
  readonly code: InferenceErrorCode
  declare readonly model?: string
  declare readonly argument?: string
  declare readonly expected?: unknown
  declare readonly received?: unknown
  declare readonly retryAfterMs?: number
  declare readonly estimatedMs?: number
  declare readonly requestId?: string

  constructor(code: InferenceErrorCode, message: string, details: InferenceErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    const { cause: _, name, ...fields } = details
    Object.assign(this, fields, name === undefined ? undefined : { argument: name })
  }
}

/** Shows a received value in an error message: short, with its type, never throwing. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'string') return value.length > 80 ? `'${value.slice(0, 77)}...'` : `'${value}'`
  if (typeof value === 'function') return `function ${value.name || '(anonymous)'}`
  if (typeof value !== 'object') return `${String(value)} (${typeof value})`
  if (Array.isArray(value)) {
    const shown = value.slice(0, 8).map((item) => (typeof item === 'object' && item !== null ? describe(item) : String(item)))
    return `[${shown.join(', ')}${value.length > 8 ? `, ... ${value.length} items` : ''}]`
  }
  const kind = value.constructor?.name ?? 'object'
  return ArrayBuffer.isView(value) && 'length' in value ? `${kind}(${value.length as number})` : `an instance of ${kind}`
}

/** The one formatter for wrong arguments: which name, what was expected, what was received. */
export function invalidArgument(
  name: string,
  expected: string,
  received: unknown,
  details: Omit<InferenceErrorDetails, 'name' | 'expected' | 'received'> & { hint?: string; code?: InferenceErrorCode } = {},
): InferenceError {
  const { hint, code = 'ERR_INVALID_ARG', ...rest } = details
  const where = rest.model === undefined ? '' : ` of model '${rest.model}'`
  const message = `${name}${where}: expected ${expected}, received ${describe(received)}${hint === undefined ? '' : `. ${hint}`}`
  return new InferenceError(code, message, { ...rest, name, expected, received })
}
