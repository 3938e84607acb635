import type { InferenceSession } from 'onnxruntime-common'

/** What `InferenceSession.create()` was called with. */
export interface CreateArguments {
  /** A path, or the bytes of a model. */
  readonly source: string | Uint8Array
  readonly options: InferenceSession.SessionOptions
}

/**
 * Reads the arguments of `create(path | bytes, options?)` and `create(buffer, byteOffset, byteLength?, options?)`.
 *
 * @throws TypeError, RangeError with the messages of onnxruntime-common, as code written for it may look for them.
 */
export function readCreateArguments([first, ...rest]: readonly unknown[]): CreateArguments {
  if (typeof first === 'string' || first instanceof Uint8Array)
    return { source: first, options: readOptions(rest[0]) }
  if (!isBuffer(first)) throw new TypeError("Unexpected argument[0]: must be 'path' or 'buffer'.")
  if (typeof rest[0] !== 'number') return { source: new Uint8Array(first), options: readOptions(rest[0]) }
  const [byteOffset, byteLength, options] = rest
  if (!Number.isSafeInteger(byteOffset)) throw new RangeError("'byteOffset' must be an integer.")
  if (byteOffset < 0 || byteOffset >= first.byteLength)
    throw new RangeError(`'byteOffset' is out of range [0, ${first.byteLength}).`)
  const most = first.byteLength - byteOffset
  if (byteLength === undefined)
    return { source: new Uint8Array(first, byteOffset), options: readOptions(options) }
  if (typeof byteLength !== 'number') throw new TypeError("'byteLength' must be a number.")
  if (!Number.isSafeInteger(byteLength)) throw new RangeError("'byteLength' must be an integer.")
  if (byteLength <= 0 || byteLength > most) throw new RangeError(`'byteLength' is out of range (0, ${most}].`)
  return { source: new Uint8Array(first, byteOffset, byteLength), options: readOptions(options) }
}

function isBuffer(value: unknown): value is ArrayBufferLike {
  return value instanceof ArrayBuffer || value instanceof SharedArrayBuffer
}

function readOptions(options: unknown): InferenceSession.SessionOptions {
  if (options === undefined) return {}
  if (typeof options !== 'object' || options === null) throw new TypeError("'options' must be an object.")
  return options
}
