import { invalidArgument } from '../errors.ts'
import { readOptions } from './plain-options.ts'

/** How `engine.close()` closes. */
export interface CloseOptions {
  /** Longest wait for accepted requests, in milliseconds; then those that are left reject, and what runs is stopped. Default: no limit. */
  timeoutMs?: number | undefined
}

/**
 * Checks the options of a close.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkCloseOptions(options: unknown): CloseOptions {
  const { timeoutMs } = readOptions('options', options, ['timeoutMs'])
  if (timeoutMs === undefined) return {}
  if (typeof timeoutMs === 'number' && timeoutMs >= 0 && timeoutMs < 2 ** 31) return { timeoutMs }
  throw invalidArgument('options.timeoutMs', 'milliseconds, 0 or more and less than 2^31', timeoutMs)
}
