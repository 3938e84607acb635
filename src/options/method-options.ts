import { invalidArgument, type InferenceErrorCode } from '../errors.ts'
import {
  durationShown,
  isAbortSignal,
  isDuration,
  isPlainObject,
  readOptions,
  readPlain,
  typed,
} from './plain-options.ts'
import type { InferOptions } from './infer-options.ts'
import type { InstanceKind } from './instance-groups.ts'
import { filePath } from '../base/files.ts'

/** Options of `engine.load()` that are not part of the model's configuration. */
export interface LoadOptions {
  /**
   * Cancels the load, which rejects at once with the signal's own reason. The name is free again, and whatever was opened is
   * released as soon as the current ONNX Runtime call returns. Default: none.
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

/** Options of `engine.close()`. */
export interface CloseOptions {
  /**
   * Milliseconds to wait for accepted requests. Then the remaining requests reject and their runs are stopped. Default: no
   * limit.
   */
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

/** The version of a model whose configuration has none. */
export const defaultVersion = 1

/** Options of `engine.infer()`: those of {@link Model.infer}, and `version`. */
export interface EngineInferOptions<
  Output extends string = string,
  Report extends boolean = false,
> extends InferOptions<Output, Report> {
  /** The version to use. Default: the newest that is ready. */
  version?: number | string | undefined
}

/** Options of `engine.unload()`. */
export interface UnloadOptions {
  /** The version to release. Default: all of them. */
  version?: number | string | undefined
}

/**
 * Parses a version number: an option, or the name of a version folder.
 *
 * @param name the option's name, for errors.
 * @throws InferenceError with the `code`, unless the value is a whole number from 1 to 2^53 - 1, as a number or as text.
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
 * Splits the version off the options of `engine.infer()`. The model checks the rest.
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

/** Options of `model.scale()`. */
export interface ScaleOptions {
  /** The kind of the group to scale; for a group of `'auto'`, the kind it became. Default: the model's only kind. */
  kind?: InstanceKind
  /** The number of instances (per GPU for `cuda`), at least 1. */
  count: number
}

/**
 * Checks scaling options, except against the model.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkScaleOptions(
  model: string,
  options: unknown,
): { readonly kind: string | undefined; readonly count: number } {
  const { kind, count } = readOptions('options', options, ['kind', 'count'], { model })
  if (kind !== undefined && typeof kind !== 'string')
    throw invalidArgument('options.kind', 'a kind of instances', kind, { model })
  if (Number.isInteger(count) && (count as number) > 0) return { kind, count: count as number }
  throw invalidArgument('options.count', 'a whole number of instances, at least 1', count, {
    model,
    hint: 'To remove the last one, call unload()',
  })
}

/** Options of `model.lease()`. */
export interface LeaseOptions {
  /** Milliseconds the rows may be held. If they are neither run nor released by then, the lease ends. Default: 60 000. */
  maxHoldMs?: number | undefined
  /**
   * Dims of a row by input, without the batch dimension (all dims for a model without batching). Required for inputs
   * whose shape the model does not fix, and not allowed for others. Default: none.
   */
  dims?: Readonly<Record<string, readonly number[]>> | undefined
}

const defaultMaxHoldMs = 60_000

/**
 * Checks lease options, except against the model.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkLeaseOptions(model: string, options: unknown = {}) {
  const { maxHoldMs = defaultMaxHoldMs, dims = {} } = readOptions('options', options, ['maxHoldMs', 'dims'], {
    model,
  })
  if (!isDuration(maxHoldMs)) throw invalidArgument('options.maxHoldMs', durationShown, maxHoldMs, { model })
  return { maxHoldMs, dims: readPlain('options.dims', dims, { model }) }
}

/** Options of `engine.recordArrivals()`. */
export interface RecordingOptions {
  /** Names of the models whose requests are recorded. Default: all. */
  models?: readonly string[] | undefined
}

/**
 * Checks the path and the options of a recording.
 *
 * @returns `models` is `null` for all.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkRecording(
  file: unknown,
  options: unknown,
): { readonly path: string; readonly models: ReadonlySet<string> | null } {
  const path = filePath(file)
  if (path === null) throw invalidArgument('path', 'the path of a file, or a file: URL', file)
  const { models } = readOptions('options', options, ['models'])
  if (models === undefined) return { path, models: null }
  if (!Array.isArray(models) || !models.every((name) => typeof name === 'string'))
    throw invalidArgument('options.models', 'names of models', models)
  return { path, models: new Set(models) }
}
