import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { cut, InferenceError, invalidArgument, listNames } from '../../errors.ts'
import { isUnsupported } from './check-backend.ts'
import { isFolder, readModelFolder, type RepositoryEntry } from './model-folder.ts'
import type { RepositoryOptions, RepositoryProblem, RepositoryReport } from './repository-options.ts'

/** The content of a repository: models in order of their names, and errors of those that cannot be served. */
interface RepositoryContents {
  readonly entries: readonly RepositoryEntry[]
  /** Errors of models for other backends. Each has its `model`. */
  readonly unsupported: readonly InferenceError[]
  /** All other errors. */
  readonly failures: readonly InferenceError[]
}

/**
 * Reads a Triton model repository, `<model>/config.pbtxt` and `<model>/<version>/model.onnx`, without loading
 * a model. Every folder is a model, except those whose names start with a dot.
 *
 * @param names models to read. Default: all.
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` if the path is no folder.
 */
export async function readRepository(path: string, names?: readonly string[]): Promise<RepositoryContents> {
  const repository = resolve(path)
  const present = await modelNames(repository)
  const wanted = names === undefined ? present : [...new Set(names)]
  const entries: RepositoryEntry[] = []
  const unsupported: InferenceError[] = []
  const failures: InferenceError[] = []
  for (const name of wanted) {
    try {
      if (!present.includes(name)) throw noFolder(name, present)
      entries.push(await readModelFolder(repository, name))
    } catch (error) {
      const own = typed(name, error as Error)
      if (isUnsupported(own)) unsupported.push(own)
      else failures.push(own)
    }
  }
  return { entries, unsupported, failures }
}

/** The names of a repository's models, in order. */
export async function modelNames(repository: string): Promise<string[]> {
  try {
    const names: string[] = []
    for (const name of (await readdir(repository)).sort()) {
      if (!name.startsWith('.') && (await isFolder(join(repository, name)))) names.push(name)
    }
    return names
  } catch (cause) {
    const hint = (cause as Error).message
    throw invalidArgument('path', 'a model repository', repository, {
      code: 'ERR_MODEL_NOT_FOUND',
      cause,
      hint,
    })
  }
}

/** The error of a requested model that does not exist. */
export function noFolder(model: string, present: readonly string[]): InferenceError {
  return invalidArgument('models', `models of the repository (${listNames(present)})`, model, {
    code: 'ERR_MODEL_NOT_FOUND',
    model,
  })
}

/** A folder that cannot be listed is one model's failure, not the repository's. */
function typed(model: string, error: Error): InferenceError {
  if (error instanceof InferenceError) return error
  return invalidArgument('path', 'a readable folder', error.message, {
    code: 'ERR_MODEL_NOT_FOUND',
    model,
    cause: error,
  })
}

/**
 * The report of models that are not served.
 *
 * @param unread errors of their folders.
 * @param refused errors of their loads.
 */
export function reportOf(
  unread: readonly InferenceError[],
  refused: readonly InferenceError[] = [],
): RepositoryReport {
  const isMissing = ({ code }: InferenceError) => code === 'ERR_MODEL_NOT_FOUND'
  const problem = (error: InferenceError): RepositoryProblem => ({
    name: error.model ?? '',
    reason: error.message,
    error,
  })
  const others = unread.filter((error) => !isUnsupported(error))
  return {
    unsupported: unread.filter(isUnsupported).map(problem),
    missing: others.filter(isMissing).map(problem),
    failed: [...others.filter((error) => !isMissing(error)), ...refused].map(problem),
  }
}

/** Passes on the notes about models. */
export function reportNotes(
  entries: readonly RepositoryEntry[],
  onNote: NonNullable<RepositoryOptions['onNote']>,
): void {
  try {
    for (const { name, notes } of entries) for (const note of notes) onNote(name, note)
  } catch (cause) {
    throw invalidArgument('options.onNote', 'a function that does not throw', cause, { cause })
  }
}

/** How many failed models the message lists. */
const errorsShown = 10

/** The error for a repository with models that cannot be loaded. */
export function loadError(path: string, loaded: number, errors: readonly InferenceError[]): InferenceError {
  const others = loaded === 0 ? '' : `; the other ${loaded === 1 ? 'one is' : `${loaded} are`} ready`
  const shown = errors
    .slice(0, errorsShown)
    .map(({ code, message }) => `\n  ${code}: ${cut(message, 400)}`)
    .join('')
  const list =
    errors.length > errorsShown
      ? `${shown}\n  and ${errors.length - errorsShown} more: see cause.errors`
      : shown
  const count = `${errors.length} of ${loaded + errors.length}`
  return new InferenceError(
    'ERR_MODEL_LOAD',
    `${count} models of ${path} cannot be loaded${others}:${list}`,
    {
      name: 'path',
      expected: 'models that can be loaded',
      received: errors.map(({ model }) => model),
      cause: new AggregateError(errors, 'Models that cannot be loaded'),
    },
  )
}
