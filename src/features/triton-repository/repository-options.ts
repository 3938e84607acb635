import { type InferenceError, invalidArgument } from '../../errors.ts'
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
type ResolvedRepositoryOptions = Required<Pick<RepositoryOptions, 'failures'>> &
  Pick<RepositoryOptions, 'models' | 'onNote'>

/** @throws InferenceError `ERR_INVALID_ARG` for a wrong path or option. */
export function checkRepository(path: string, given: unknown): ResolvedRepositoryOptions {
  if (typeof path !== 'string' || path === '')
    throw invalidArgument('path', 'the path of a model repository, or a file: URL', path)
  const {
    mode = 'all',
    models,
    failures = 'reject',
    onNote,
  } = readOptions('options', given, ['mode', 'models', 'failures', 'onNote'])
  if (failures !== 'reject' && failures !== 'report')
    throw invalidArgument('options.failures', "'reject' or 'report'", failures)
  if (onNote !== undefined && typeof onNote !== 'function')
    throw invalidArgument('options.onNote', 'a function', onNote)
  const names = models === undefined ? (mode === 'explicit' ? [] : undefined) : readNames(models)
  return { failures, models: names, onNote: onNote as RepositoryOptions['onNote'] }
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

/**
 * Separates the options of watching from the others.
 *
 * @returns the options of watching, `null` if the repository is not watched, and the others, unchecked.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function takeWatch(options: unknown): {
  readonly watch: ResolvedWatch | null
  readonly others: object
} {
  const { mode = 'all', pollMs, debounceMs, ...others } = readPlain('options', options)
  if (mode === 'watch' && others['failures'] === 'reject') {
    throw invalidArgument('options.failures', "'report', or to be omitted, in mode 'watch'", 'reject', {
      hint: 'A model that cannot be loaded now may be there later',
    })
  }
  if (mode === 'watch')
    return {
      watch: {
        pollMs: duration('pollMs', pollMs, 1000),
        debounceMs: duration('debounceMs', debounceMs, 2000),
      },
      others,
    }
  if (mode !== 'all' && mode !== 'explicit')
    throw invalidArgument('options.mode', "'all', 'explicit' or 'watch'", mode)
  for (const [name, value] of Object.entries({ pollMs, debounceMs })) {
    if (value !== undefined)
      throw invalidArgument(`options.${name}`, "to be omitted unless mode is 'watch'", value)
  }
  return { watch: null, others: { mode, ...others } }
}

function duration(name: string, value: unknown, otherwise: number): number {
  if (value === undefined) return otherwise
  if (typeof value === 'number' && value > 0 && value < 2 ** 31) return value
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
