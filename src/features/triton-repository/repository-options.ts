import { invalidArgument, type InferenceError } from '../../errors.ts'
import { readOptions, typed } from '../../options/plain-options.ts'
import type { WatchOptions } from './watch-options.ts'

/** Options of `engine.loadRepository()`. */
export interface RepositoryOptions extends WatchOptions {
  /** Names of the models to load. Default: all of the repository; none in mode `'explicit'`. */
  models?: readonly string[]
  /**
   * What becomes of models that are configured wrongly or cannot be loaded: `'reject'`, with all that was found of them, once the
   * others are ready, or `'report'`, among the {@link RepositoryReport.failed}. Default `'reject'`; in mode `'watch'`, which knows no
   * other, `'report'`.
   */
  failures?: 'reject' | 'report'
  /** Told of each field of a `config.pbtxt` that changes nothing here, with its line and the reason. */
  onNote?: (model: string, note: string) => void
}

/** A model of a repository that is not served. */
export interface RepositoryProblem {
  /** The name of its folder. */
  readonly name: string
  /** In words. */
  readonly reason: string
  /** The same as an error. */
  readonly error: InferenceError
}

/** What became of the models of a repository that are not served. */
export interface RepositoryReport {
  /** Models of other backends. */
  readonly unsupported: readonly RepositoryProblem[]
  /** Models without a version folder that is to be served, or without a model file in it. */
  readonly missing: readonly RepositoryProblem[]
  /** Models that are configured wrongly, or could not be loaded; empty where `failures` is `'reject'`. */
  readonly failed: readonly RepositoryProblem[]
}

/** Checked options. */
export type ResolvedRepositoryOptions = Required<Pick<RepositoryOptions, 'failures'>> &
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
