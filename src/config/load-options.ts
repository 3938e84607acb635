import { invalidArgument } from '../errors.ts'

/** Options of `engine.load()` that are none of the model's. */
export interface LoadOptions {
  /**
   * Ends the load: it rejects with the signal's own reason at once, the name is free, and what was opened is released
   * as soon as ONNX Runtime lets go of it.
   */
  signal?: AbortSignal
}

/**
 * Checks the options of a load.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkLoadOptions(options: unknown): LoadOptions {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) throw invalidArgument('options', 'an object', options)
  for (const name in options) if (name !== 'signal') throw invalidArgument(`options.${name}`, 'a known option: signal', name)
  const { signal } = options as LoadOptions
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalidArgument('options.signal', 'an AbortSignal', signal)
  return options
}
