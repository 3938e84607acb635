import { invalidArgument } from '../errors.ts'

/** How `engine.close()` closes. */
export interface CloseOptions {
  /** Longest wait for accepted requests, in milliseconds; then those still queued are rejected. Default: no limit. */
  timeoutMs?: number
}

/**
 * Checks the options of a close.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkCloseOptions(options: unknown): CloseOptions {
  if (typeof options !== 'object' || options === null) throw invalidArgument('options', 'an object', options)
  const { timeoutMs, ...others } = options as CloseOptions
  for (const name in others) throw invalidArgument(`options.${name}`, 'a known option: timeoutMs', name)
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs >= 0 && timeoutMs < 2 ** 31)) {
    throw invalidArgument('options.timeoutMs', 'milliseconds, 0 or more and less than 2^31', timeoutMs)
  }
  return options
}
