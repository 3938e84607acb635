import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { cut, InferenceError, invalidArgument, listNames } from '../../errors.ts'
import { isUnsupported } from './check-backend.ts'
import { isFolder, readModelFolder, type RepositoryEntry, type VersionConfig } from './model-folder.ts'
import {
  checkRepository,
  type RepositoryOptions,
  type RepositoryProblem,
  type RepositoryReport,
  withReport,
} from './repository-options.ts'

/** Loads one version of a model. */
type LoadModel<M> = (name: string, config: VersionConfig) => Promise<M>

/**
 * Loads the models of a repository through `load`, all versions at once, and waits for every one. Models that
 * loaded stay loaded even if others fail.
 *
 * @returns each model once, and a report of the models that are not served.
 * @throws InferenceError `ERR_MODEL_LOAD` if models failed and `failures` is `'reject'`, or if a model named
 * in `models` is missing or not for ONNX Runtime. Its `cause` is an `AggregateError` with one
 * `InferenceError` per model, and `received` lists their names. `ERR_MODEL_NOT_FOUND` if the path is no
 * folder.
 */
export async function loadRepository<M>(
  path: string,
  options: RepositoryOptions,
  load: LoadModel<M>,
): Promise<M[] & RepositoryReport> {
  const { models: wanted, onNote, failures } = checkRepository(path, options)
  const contents = await readRepository(path, wanted)
  if (onNote !== undefined) tell(contents.entries, onNote)
  const results = await Promise.allSettled(
    contents.entries.flatMap((entry) => entry.configs.map((config) => loadVersion(entry, config, load))),
  )
  const models = [
    ...new Set(results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))),
  ]
  const refused = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason as InferenceError] : [],
  )
  const report = reportOf([...contents.unsupported, ...contents.failures], refused)
  const failed = report.failed.map(({ error }) => error)
  if (models.length === 0 && failed.length > 0 && failed.every(({ code }) => code === 'ERR_CLOSED'))
    throw failed[0]!
  const asked =
    wanted === undefined ? [] : [...report.unsupported, ...report.missing].map(({ error }) => error)
  const errors = [...asked, ...failed]
  if (errors.length > 0 && failures === 'reject') throw loadError(path, models.length, errors)
  return withReport(models, report)
}

/**
 * Loads all versions that a model's folder asks for.
 *
 * @returns the result of loading the newest.
 */
async function loadEntry<M>(entry: RepositoryEntry, load: LoadModel<M>): Promise<M> {
  const results = await Promise.allSettled(entry.configs.map((config) => loadVersion(entry, config, load)))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return (results[0] as PromiseFulfilledResult<M>).value
}

/** An error about the configuration names the file that it comes from. */
async function loadVersion<M>(
  { name, atField }: RepositoryEntry,
  config: VersionConfig,
  load: LoadModel<M>,
): Promise<M> {
  try {
    return await load(name, config)
  } catch (error) {
    throw error instanceof InferenceError ? atField(error) : error
  }
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

export function tell(
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

function loadError(path: string, loaded: number, errors: readonly InferenceError[]): InferenceError {
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

/** The repositories of an engine. Their models may be loaded by name. */
export class Repositories {
  readonly #paths = new Set<string>()

  /** Whether there are no repositories. */
  get isEmpty(): boolean {
    return this.#paths.size === 0
  }

  /** A value that is no path is refused elsewhere. */
  add(path: unknown): void {
    if (typeof path === 'string' && path !== '') this.#paths.add(resolve(path))
  }

  /**
   * Loads what a model's folder asks for now, from the first repository that has one.
   *
   * @param config see {@link readModelFolder}.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` if no repository has one; `ERR_MODEL_CONFIG`; errors of
   * `load`.
   */
  async load<M>(name: string, load: LoadModel<M>, config?: string): Promise<M> {
    return loadEntry(await this.#read(name, config), load)
  }

  /** The names of the models now in each repository. */
  async names(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>()
    for (const path of this.#paths) found.set(path, await modelNames(path).catch((): string[] => [])) // it may be gone
    return found
  }

  async #read(name: string, config: string | undefined): Promise<RepositoryEntry> {
    const all: string[] = []
    for (const [path, names] of await this.names()) {
      if (names.includes(name)) return readModelFolder(path, name, config)
      all.push(...names)
    }
    const details = {
      code: 'ERR_MODEL_NOT_FOUND',
      model: name,
      hint: 'Give its configuration to load a model from elsewhere',
    } as const
    throw invalidArgument('name', `a model of the repositories (${listNames(all)})`, name, details)
  }
}

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
