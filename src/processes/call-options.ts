import { isAbortSignal } from '../config/abort-signal.ts'
import { isPlainObject } from '../config/plain-options.ts'
import { invalidArgument, unreadable } from '../errors.ts'
import { frameKinds, textFrame } from './frames.ts'
import { messageText, type Call } from './messages.ts'

/** Options of a call: what stays here, and what travels. */
export interface CallOptions {
  readonly signal: AbortSignal | undefined
  readonly options: object | undefined
}

export const noOptions: CallOptions = { signal: undefined, options: undefined }

/** Each is read once. @throws InferenceError `ERR_INVALID_ARG` */
export function readCallOptions(given: unknown, model: string): CallOptions {
  if (!isPlainObject(given)) throw invalidArgument('options', 'a plain object', given, { model })
  const { signal, ...options } = given
  if (signal !== undefined && !isAbortSignal(signal)) throw invalidArgument('options.signal', 'an AbortSignal', signal, { model })
  return { signal, options }
}

/** @throws InferenceError `ERR_INVALID_ARG` for arguments that cannot be read, or have more bytes than the serving process takes. */
export function callFrame(call: Call, maxBytes: number): Buffer {
  let frame: Buffer
  try {
    frame = textFrame(frameKinds.call, messageText(call))
  } catch (error) {
    throw unreadable(`arguments of ${call.method}()`, error)
  }
  if (frame.length <= maxBytes) return frame
  throw invalidArgument(`arguments of ${call.method}()`, `at most ${maxBytes} bytes (maxBytes of serve)`, frame.length, { hint: 'Give the path of a model, and not its bytes' })
}
