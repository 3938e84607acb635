import { invalidArgument } from '../errors.ts'
import { isAbortSignal } from './abort-signal.ts'
import { readOptions } from './plain-options.ts'

/** Options of `engine.load()` that are none of the model's. */
export interface LoadOptions {
  /**
   * Ends the load: it rejects with the signal's own reason at once, the name is free, and what was opened is released
   * as soon as ONNX Runtime lets go of it.
   */
  signal?: AbortSignal | undefined
}

/**
 * Checks the options of a load.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkLoadOptions(options: unknown): LoadOptions {
  const { signal } = readOptions('options', options, ['signal'])
  if (signal === undefined) return {}
  if (isAbortSignal(signal)) return { signal }
  throw invalidArgument('options.signal', 'an AbortSignal', signal)
}
