import { invalidArgument } from '../../errors.ts'
import { readPlain } from '../../options/plain-options.ts'

/** Options of `engine.loadRepository()` that say how long it looks at the repository. */
export interface WatchOptions {
  /**
   * `'all'`: what is there now is loaded. `'explicit'`: of that the `models` are, and any other when `engine.load(name)` asks
   * for it. `'watch'`: so is what comes, in place of what it was, and what goes is unloaded, until the engine is closed.
   * Default `'all'`.
   */
  mode?: 'all' | 'explicit' | 'watch'
  /** How long after one look at the files of a watched repository the next one comes, in milliseconds. Default 1000. */
  pollMs?: number
  /** How long none of a model's files may have changed before it is read, in milliseconds. Default 2000. */
  debounceMs?: number
}

/** {@link WatchOptions} of a repository that is watched, checked. */
export interface ResolvedWatch {
  readonly pollMs: number
  readonly debounceMs: number
}

/**
 * Takes the options of watching out of those of a repository.
 *
 * @returns them, `null` for a repository that is not watched, and the others, unchecked.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function takeWatch(options: unknown): {
  readonly watch: ResolvedWatch | null
  readonly others: object
} {
  const { mode = 'all', pollMs, debounceMs, ...others } = readPlain('options', options)
  if (mode === 'watch' && others['failures'] === 'reject') {
    throw invalidArgument('options.failures', "'report', or to be left out, in mode 'watch'", 'reject', {
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
      throw invalidArgument(`options.${name}`, "to be left out unless mode is 'watch'", value)
  }
  return { watch: null, others: { mode, ...others } }
}

function duration(name: string, value: unknown, otherwise: number): number {
  if (value === undefined) return otherwise
  if (typeof value === 'number' && value > 0 && value < 2 ** 31) return value
  throw invalidArgument(`options.${name}`, 'milliseconds, more than 0 and less than 2^31', value)
}
