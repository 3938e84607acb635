import { isAbortSignal } from '../../options/abort-signal.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import { InferenceError, invalidArgument, unreadable } from '../../errors.ts'
import { callFrameOf, type Call } from './messages.ts'

/** Options of a call: what stays here, and what travels. */
export interface CallOptions {
  readonly signal: AbortSignal | undefined
  readonly options: object | undefined
  /** What is kept here, too, where nothing is heard of the serving process; `null` for none. */
  readonly limit: CallLimit | null
}

/** The shorter of the limits of a call. */
export interface CallLimit {
  readonly name: 'timeoutMs' | 'deadlineMs'
  readonly ms: number
}

export const noOptions: CallOptions = { signal: undefined, options: undefined, limit: null }
const longestTimerMs = 2 ** 31 - 1

/** Each is read once. @throws InferenceError `ERR_INVALID_ARG` */
export function readCallOptions(given: unknown, model: string): CallOptions {
  if (!isPlainObject(given)) throw invalidArgument('options', 'a plain object', given, { model })
  const { signal, ...options } = given
  if (signal !== undefined && !isAbortSignal(signal))
    throw invalidArgument('options.signal', 'an AbortSignal', signal, { model })
  return { signal, options, limit: limitOf(options) }
}

/** What is none is refused by the serving process. */
function limitOf({ timeoutMs, deadlineMs }: { timeoutMs?: unknown; deadlineMs?: unknown }): CallLimit | null {
  const [timeout, deadline] = [timeoutMs, deadlineMs].map((each) =>
    typeof each === 'number' && each >= 0 && each <= longestTimerMs ? each : Infinity,
  ) as [number, number]
  if (timeout === Infinity && deadline === Infinity) return null
  return timeout <= deadline ? { name: 'timeoutMs', ms: timeout } : { name: 'deadlineMs', ms: deadline }
}

/** @throws InferenceError `ERR_INVALID_ARG` for arguments that cannot be read, or have more bytes than the serving process takes. */
export function callFrame(call: Call, maxBytes: number): Buffer {
  let frame: Buffer
  try {
    frame = callFrameOf(call)
  } catch (error) {
    if (error instanceof InferenceError) throw error
    throw unreadable(`arguments of ${call.method}()`, error)
  }
  if (frame.length <= maxBytes) return frame
  throw invalidArgument(
    `arguments of ${call.method}()`,
    `at most ${maxBytes} bytes (maxBytes of serve)`,
    frame.length,
    { hint: 'Give the path of a model, and not its bytes' },
  )
}
