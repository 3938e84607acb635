import { invalidArgument, type InferenceErrorCode } from '../errors.ts'
import { isAbortSignal, isPlainObject, readOptions, readPlain, typed } from './plain-options.ts'
import type { InferOptions } from './infer-options.ts'
import type { InstanceKind } from './instance-groups.ts'
import { filePath } from '../base/files.ts'

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

/** What `model.scale()` is to come to. */
export interface ScaleOptions {
  /** Which instances are meant, by the kind of their group, or of what `'auto'` has become. Default: the only kind there is. */
  kind?: InstanceKind
  /** How many there are to be (per GPU for `cuda`), 1 or more. */
  count: number
}

/**
 * Checks the options of a scaling, but for what depends on the model.
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
    hint: 'unload() takes the last one out',
  })
}

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

/** Options of `engine.recordArrivals()`. */
export interface RecordingOptions {
  /** Names of the models whose requests are recorded. Default: all. */
  models?: readonly string[] | undefined
}

/**
 * Checks where requests are recorded, and which.
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
