import { type InferenceError, invalidArgument } from '../../errors.ts'
import { isDuration } from '../../options/plain-options.ts'
import { readOptions, readPlain, typed } from '../../options/plain-options.ts'

/** Options of `engine.loadRepository()`. */
export interface RepositoryOptions extends WatchOptions {
  /** Names of the models to load. Default: all of the repository; none in mode `'explicit'`. */
  models?: readonly string[]
  /**
   * How to treat models that are configured wrongly or cannot be loaded. Default `'reject'`; in mode
   * `'watch'` always `'report'`.
   *
   * - `'reject'`: rejects with all errors, once the other models are ready.
   * - `'report'`: lists them in {@link RepositoryReport.failed}.
   */
  failures?: 'reject' | 'report'
  /** Called for each field of a `config.pbtxt` without effect here, with its line and the reason. Default: none. */
  onNote?: (model: string, note: string) => void
}

/** A model of a repository that is not served. */
export interface RepositoryProblem {
  /** The name of its folder. */
  readonly name: string
  /** The reason as text. */
  readonly reason: string
  /** The reason as an error. */
  readonly error: InferenceError
}

/** The models of a repository that are not served. */
export interface RepositoryReport {
  /** Models of other backends. */
  readonly unsupported: readonly RepositoryProblem[]
  /** Models without a version folder to serve, or without a model file in it. */
  readonly missing: readonly RepositoryProblem[]
  /** Models that are configured wrongly or could not be loaded; empty if `failures` is `'reject'`. */
  readonly failed: readonly RepositoryProblem[]
}

/** Checked options. */
export interface ResolvedRepositoryOptions extends Pick<RepositoryOptions, 'onNote'> {
  /** `undefined` for all. */
  readonly models: readonly string[] | undefined
  readonly failures: 'reject' | 'report'
  /** `null` if the repository is not watched. */
  readonly watch: ResolvedWatch | null
}

/** @throws InferenceError `ERR_INVALID_ARG` for a wrong option. */
export function checkRepositoryOptions(given: unknown): ResolvedRepositoryOptions {
  const { pollMs, debounceMs, ...others } = readPlain('options', given)
  const {
    mode = 'all',
    models,
    failures,
    onNote,
  } = readOptions('options', others, ['mode', 'models', 'failures', 'onNote'])
  const watched = mode === 'watch'
  if (!watched && mode !== 'all' && mode !== 'explicit')
    throw invalidArgument('options.mode', "'all', 'explicit' or 'watch'", mode)
  if (watched && failures === 'reject')
    throw invalidArgument('options.failures', "'report', or to be omitted, in mode 'watch'", failures, {
      hint: 'A model that cannot be loaded now may be there later',
    })
  if (failures !== undefined && failures !== 'reject' && failures !== 'report')
    throw invalidArgument('options.failures', "'reject' or 'report'", failures)
  if (onNote !== undefined && typeof onNote !== 'function')
    throw invalidArgument('options.onNote', 'a function', onNote)
  for (const [name, value] of Object.entries({ pollMs, debounceMs })) {
    if (!watched && value !== undefined)
      throw invalidArgument(`options.${name}`, "to be omitted unless mode is 'watch'", value)
  }
  return {
    models: models === undefined ? (mode === 'explicit' ? [] : undefined) : readNames(models),
    failures: failures ?? 'reject',
    onNote: onNote as RepositoryOptions['onNote'],
    watch: watched
      ? {
          pollMs: duration('pollMs', pollMs, 1000),
          debounceMs: duration('debounceMs', debounceMs, 2000),
        }
      : null,
  }
}

function readNames(models: unknown): string[] {
  try {
    const names = Array.isArray(models) ? [...(models as unknown[])] : null
    if (names !== null && names.every((name) => typeof name === 'string')) return names as string[]
  } catch (error) {
    throw typed('options.models', error)
  }
  throw invalidArgument('options.models', 'an array of model names', models)
}

/** Options of `engine.loadRepository()` about watching the repository. */
interface WatchOptions {
  /**
   * What is loaded, and when. Default `'all'`.
   *
   * - `'all'`: loads the models that are there now.
   * - `'explicit'`: loads those of `models` now, and any other when `engine.load(name)` asks for it.
   * - `'watch'`: loads the models that are there now, then loads new ones, reloads changed ones, and unloads
   *   removed ones, until the engine is closed.
   */
  mode?: 'all' | 'explicit' | 'watch'
  /** Pause between two checks of a watched repository's files, in milliseconds. Default 1000. */
  pollMs?: number
  /** How long all files of a model must be unchanged before it is read, in milliseconds. Default 2000. */
  debounceMs?: number
}

/** Checked {@link WatchOptions} of a watched repository. */
export interface ResolvedWatch {
  readonly pollMs: number
  readonly debounceMs: number
}

function duration(name: string, value: unknown, otherwise: number): number {
  if (value === undefined) return otherwise
  if (isDuration(value)) return value
  throw invalidArgument(`options.${name}`, 'milliseconds, more than 0 and less than 2^31', value)
}

/** The models, with the report as a hidden property: iterating or comparing the array yields models only. */
export function withReport<M>(
  models: M[],
  { unsupported, missing, failed }: RepositoryReport,
): M[] & RepositoryReport {
  const properties = {
    unsupported: { value: unsupported },
    missing: { value: missing },
    failed: { value: failed },
  }
  return Object.defineProperties(models, properties) as M[] & RepositoryReport
}
