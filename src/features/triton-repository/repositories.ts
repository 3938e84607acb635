import { resolve } from 'node:path'
import { invalidArgument, listNames } from '../../errors.ts'
import { loadEntry, type LoadModel } from './load-repository.ts'
import { readModelFolder, type RepositoryEntry } from './model-folder.ts'
import { modelNames } from './read-repository.ts'

/** The repositories of an engine, whose models may be loaded by their names. */
export class Repositories {
  readonly #paths = new Set<string>()

  /** Whether there is none. */
  get isEmpty(): boolean {
    return this.#paths.size === 0
  }

  /** What is no path is refused elsewhere. */
  add(path: unknown): void {
    if (typeof path === 'string' && path !== '') this.#paths.add(resolve(path))
  }

  /**
   * Loads what a model's folder asks for now, in the first repository that has one.
   *
   * @param config see {@link readModelFolder}.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when none has; `ERR_MODEL_CONFIG`; what `load` rejects with.
   */
  async load<M>(name: string, load: LoadModel<M>, config?: string): Promise<M> {
    return loadEntry(await this.#read(name, config), load)
  }

  /** The models that there are now, by the repositories that have them. */
  async names(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>()
    for (const path of this.#paths) found.set(path, await modelNames(path).catch((): string[] => [])) // it may have gone
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
