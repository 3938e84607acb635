import { invalidArgument, type InferenceErrorCode } from '../errors.ts'
import { isPlainObject, readOptions, typed } from './plain-options.ts'
import type { InferOptions } from './infer-options.ts'

/** The version of a model that is loaded without one. */
export const defaultVersion = 1

/** Options of one `engine.infer()`: those of {@link Model.infer}, and this. */
export interface EngineInferOptions<
  Output extends string = string,
  Report extends boolean = false,
> extends InferOptions<Output, Report> {
  /** The version that is to answer. Default: the newest that is ready. */
  version?: number | string | undefined
}

/** Options of `engine.unload()`. */
export interface UnloadOptions {
  /** The version to release. Default: all of them. */
  version?: number | string | undefined
}

/**
 * The number of a version: one that is given, or the name of a version folder.
 *
 * @param name of the option, for errors.
 * @throws InferenceError of the `code`, unless it is a whole number from 1 to 2^53 - 1, or such a number as text.
 */
export function readVersion(
  value: unknown,
  name: string,
  details: { model?: string; code?: InferenceErrorCode } = {},
): number {
  const isText = typeof value === 'string' && /^[1-9]\d{0,15}$/.test(value)
  const version = isText ? Number(value) : value
  if (Number.isSafeInteger(version) && (version as number) >= 1) return version as number
  throw invalidArgument(name, 'a whole number, 1 or more and less than 2^53', value, details)
}

/**
 * Takes the version out of the options of an `engine.infer()`; whatever else is in them, or is no options, is left to be
 * checked by the model.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function takeVersion(
  options: unknown,
  model: string,
): { readonly version: number | undefined; readonly rest: InferOptions<string, boolean> } {
  try {
    if (isPlainObject(options) && Object.hasOwn(options, 'version')) {
      const { version, ...rest } = options
      return {
        version: version === undefined ? undefined : readVersion(version, 'options.version', { model }),
        rest,
      }
    }
  } catch (error) {
    throw typed('options', error, { model })
  }
  return { version: undefined, rest: options as InferOptions<string, boolean> }
}

/**
 * Checks the options of an unload.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkUnloadOptions(options: unknown): { readonly version: number | undefined } {
  const { version } = readOptions('options', options, ['version'])
  return { version: version === undefined ? undefined : readVersion(version, 'options.version') }
}
