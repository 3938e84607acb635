import { InferenceError, invalidArgument } from '../errors.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { readRepository } from './read-repository.ts'

/** Options of `engine.loadRepository()`. */
export interface RepositoryOptions {
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
  checkArguments(path, options)
  const { entries, failures } = await readRepository(path, options.models)
  for (const { name, notes } of entries) {
    for (const note of notes) options.onNote?.(name, note)
  }
  const results = await Promise.allSettled(entries.map(({ name, config }) => load(name, config)))
  const models = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as InferenceError] : []))
  const errors = [...failures, ...failed]
  if (errors.length === 0) return models
  if (models.length === 0 && errors.every(({ code }) => code === 'ERR_CLOSED')) throw errors[0]!
  throw loadError(path, models.length, errors)
}

function loadError(path: string, loaded: number, errors: readonly InferenceError[]): InferenceError {
  const others = loaded === 0 ? '' : `; the other ${loaded === 1 ? 'one is' : `${loaded} are`} ready`
  const list = errors.map(({ code, message }) => `\n  ${code}: ${message}`).join('')
  const count = `${errors.length} of ${loaded + errors.length}`
  return new InferenceError('ERR_MODEL_LOAD', `${count} models of ${path} cannot be loaded${others}:${list}`, {
    name: 'path',
    expected: 'models that can be loaded',
    received: errors.map(({ model }) => model),
    cause: new AggregateError(errors, 'Models that cannot be loaded'),
  })
}

function checkArguments(path: unknown, options: unknown): void {
  if (typeof path !== 'string' || path === '') throw invalidArgument('path', 'the path of a model repository', path)
  if (typeof options !== 'object' || options === null) throw invalidArgument('options', 'an object', options)
  for (const name in options) {
    if (name !== 'models' && name !== 'onNote') throw invalidArgument(`options.${name}`, 'models or onNote', name)
  }
  const { models, onNote } = options as Record<keyof RepositoryOptions, unknown>
  if (models !== undefined && !(Array.isArray(models) && models.every((name) => typeof name === 'string'))) {
    throw invalidArgument('options.models', 'an array of model names', models)
  }
  if (onNote !== undefined && typeof onNote !== 'function') throw invalidArgument('options.onNote', 'a function', onNote)
}
