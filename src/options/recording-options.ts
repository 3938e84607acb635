import { invalidArgument } from '../errors.ts'
import { filePath } from '../base/files.ts'
import { readOptions } from './plain-options.ts'

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
