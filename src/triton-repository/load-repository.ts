import { cut } from '../describe.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { readOptions, typed } from '../config/plain-options.ts'
import type { RepositoryEntry } from './model-folder.ts'
import { readRepository } from './read-repository.ts'
import type { WatchOptions } from './watch-options.ts'

/** Options of `engine.loadRepository()`. */
export interface RepositoryOptions extends WatchOptions {
  /** Names of the models to load. Default: all of the repository. */
  models?: readonly string[]
  /** Told of each field of a `config.pbtxt` that changes nothing here, with its line and the reason. */
  onNote?: (model: string, note: string) => void
}

/**
 * Loads the models of a repository through `load`, all at once. Waits for every one of them, then resolves with all
 * or rejects; those that could be loaded stay so, as in a server that serves what it can.
 *
 * @throws InferenceError `ERR_MODEL_LOAD` when some failed: its `cause` is an `AggregateError` with one `InferenceError`
 * per model, and `received` lists their names. `ERR_MODEL_NOT_FOUND` when the path is no folder.
 */
export async function loadRepository<M>(
  path: string,
  options: RepositoryOptions,
  load: (name: string, config: ModelConfig) => Promise<M>,
): Promise<M[]> {
  const { models: wanted, onNote } = checkRepository(path, options)
  const { entries, failures } = await readRepository(path, wanted)
  if (onNote !== undefined) tell(entries, onNote)
  const results = await Promise.allSettled(entries.map(({ name, config }) => load(name, config)))
  const models = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as InferenceError] : []))
  const errors = [...failures, ...failed]
  if (errors.length === 0) return models
  if (models.length === 0 && errors.every(({ code }) => code === 'ERR_CLOSED')) throw errors[0]!
  throw loadError(path, models.length, errors)
}

/** @throws InferenceError `ERR_INVALID_ARG` for a wrong path or option. */
export function checkRepository(path: string, options: RepositoryOptions): RepositoryOptions {
  if (typeof path !== 'string' || path === '') throw invalidArgument('path', 'the path of a model repository', path)
  return readRepositoryOptions(options)
}

export function tell(entries: readonly RepositoryEntry[], onNote: NonNullable<RepositoryOptions['onNote']>): void {
  try {
    for (const { name, notes } of entries) for (const note of notes) onNote(name, note)
  } catch (cause) {
    throw invalidArgument('options.onNote', 'a function that does not throw', cause, { cause })
  }
}

/** How many of the models that failed the message tells about. */
const errorsShown = 10

function loadError(path: string, loaded: number, errors: readonly InferenceError[]): InferenceError {
  const others = loaded === 0 ? '' : `; the other ${loaded === 1 ? 'one is' : `${loaded} are`} ready`
  const shown = errors.slice(0, errorsShown).map(({ code, message }) => `\n  ${code}: ${cut(message, 300)}`).join('')
  const list = errors.length > errorsShown ? `${shown}\n  and ${errors.length - errorsShown} more: see cause.errors` : shown
  const count = `${errors.length} of ${loaded + errors.length}`
  return new InferenceError('ERR_MODEL_LOAD', `${count} models of ${path} cannot be loaded${others}:${list}`, {
    name: 'path',
    expected: 'models that can be loaded',
    received: errors.map(({ model }) => model),
    cause: new AggregateError(errors, 'Models that cannot be loaded'),
  })
}

function readRepositoryOptions(options: unknown): RepositoryOptions {
  const { models, onNote } = readOptions('options', options, ['models', 'onNote'])
  if (onNote !== undefined && typeof onNote !== 'function') throw invalidArgument('options.onNote', 'a function', onNote)
  return { models: models === undefined ? undefined : readNames(models), onNote: onNote as RepositoryOptions['onNote'] }
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
