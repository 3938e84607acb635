import { invalidArgument } from '../errors.ts'
import { readOptions, readPlain } from './plain-options.ts'

/** How rows are leased. */
export interface LeaseOptions {
  /** How long they may be held before they are run or released, in milliseconds; they are taken back then. Default 60 000. */
  maxHoldMs?: number | undefined
  /**
   * By input, the dims of a row without the batch dimension (of a model that is not batched, all dims): for inputs whose shape
   * the model does not fix, and for no others. Default: none.
   */
  dims?: Readonly<Record<string, readonly number[]>> | undefined
}

/** {@link LeaseOptions} with every default in place. */
export interface ResolvedLeaseOptions {
  readonly maxHoldMs: number
  readonly dims: Readonly<Record<string, unknown>>
}

const defaultMaxHoldMs = 60_000

/**
 * Checks the options of a lease, but for what depends on the model.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkLeaseOptions(model: string, options: unknown = {}): ResolvedLeaseOptions {
  const { maxHoldMs = defaultMaxHoldMs, dims = {} } = readOptions('options', options, ['maxHoldMs', 'dims'], {
    model,
  })
  if (typeof maxHoldMs !== 'number' || !(maxHoldMs > 0 && maxHoldMs < 2 ** 31)) {
    throw invalidArgument('options.maxHoldMs', 'milliseconds, more than 0 and less than 2^31', maxHoldMs, {
      model,
    })
  }
  return { maxHoldMs, dims: readPlain('options.dims', dims, { model }) }
}
