import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { InferenceError, invalidArgument, listNames } from '../../errors.ts'
import { isUnsupported } from './check-backend.ts'
import { isFolder, readModelFolder, type RepositoryEntry } from './model-folder.ts'

/** What was found in a repository: models in the order of their names, and the errors of those that cannot be served. */
export interface RepositoryContents {
  readonly entries: readonly RepositoryEntry[]
  /** Of models for other backends. Each has its `model`. */
  readonly unsupported: readonly InferenceError[]
  /** Of all others. */
  readonly failures: readonly InferenceError[]
}

/**
 * Reads a Triton model repository, `<model>/config.pbtxt` and `<model>/<version>/model.onnx`, without loading a model.
 * Every folder is a model, except those whose names start with a dot.
 *
 * @param names models to read. Default: all.
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` when the path is no folder.
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

/** The names of the models of a repository, in their order. */
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

/** The error of a model that is asked for and not there. */
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
