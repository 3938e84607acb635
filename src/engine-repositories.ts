import { systemClock } from './clock.ts'
import type { ModelConfig } from './config/model-config.ts'
import { resolveConfig } from './config/resolve-model-config.ts'
import { InferenceError } from './errors.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { LoadLimits } from './model-version.ts'
import type { NamedModel } from './named-model.ts'
import type { EventHub } from './observability/engine-events.ts'
import { loadRepository, reportOf, tell, withReport } from './triton-repository/load-repository.ts'
import { readModelFolder, type RepositoryEntry } from './triton-repository/model-folder.ts'
import { Repositories } from './triton-repository/repositories.ts'
import { checkRepository, type RepositoryOptions, type RepositoryReport } from './triton-repository/repository-options.ts'
import { RepositoryWatch } from './triton-repository/watch.ts'
import { takeWatch, type ResolvedWatch } from './triton-repository/watch-options.ts'

/** What the repositories need of an engine. */
export interface RepositoryOwner {
  readonly models: ModelRegistry
  readonly events: EventHub
  readonly pluginNames: readonly string[]
  /** Gives back memory that is not needed any more. */
  trim(): void
}

/** The model repositories of an engine: loads their models, and keeps in step with those that are watched. */
export class EngineRepositories {
  readonly #owner: RepositoryOwner
  readonly #known = new Repositories()
  readonly #watches: RepositoryWatch[] = []

  constructor(owner: RepositoryOwner) {
    this.#owner = owner
  }

  /** Whether there is none. */
  get isEmpty(): boolean {
    return this.#known.isEmpty
  }

  /** Loads the models of a repository; see {@link loadRepository}. */
  async load(path: string, options: RepositoryOptions): Promise<NamedModel[] & RepositoryReport> {
    const { watch, others } = takeWatch(options)
    this.#known.add(path)
    return watch === null ? loadRepository(path, others, (name, config) => this.#load(name, config, {})) : this.#watch(path, others, watch)
  }

  /** Loads a model of one of the repositories, as its folder has it now. */
  async loadNamed(name: string, limits: LoadLimits): Promise<NamedModel> {
    return this.#known.load(name, (_, config) => this.#load(name, config, limits))
  }

  /** Watches no more; what is loaded stays. */
  close(): void {
    for (const watch of this.#watches) watch.close()
  }

  async #load(name: string, config: ModelConfig, limits: LoadLimits): Promise<NamedModel> {
    const { models, pluginNames } = this.#owner
    return (await models.load(name, resolveConfig(name, config, pluginNames), limits)).named
  }

  /** Loads what is there, and keeps in step with it until the engine is closed. */
  async #watch(path: string, options: RepositoryOptions, watched: ResolvedWatch): Promise<NamedModel[] & RepositoryReport> {
    const { models: names, onNote } = checkRepository(path, options)
    const { models, events } = this.#owner
    const entries = new Map<string, RepositoryEntry>()
    const problems: InferenceError[] = []
    let hasStarted = false
    const watch = new RepositoryWatch(path, names, watched, systemClock, {
      read: async (name) => {
        const entry = await readModelFolder(path, name)
        entries.set(name, entry)
        if (onNote !== undefined) tell([entry], onNote)
        return entry.configs.map((config) => ({ config }))
      },
      load: async (name, config, accept) => {
        try {
          await this.#load(name, config, { accept })
        } catch (error) {
          throw error instanceof InferenceError ? entries.get(name)!.atField(error) : error
        }
      },
      unload: async (name, version) => {
        await models.get(name)?.version(version)?.end(false)
        this.#owner.trim()
      },
      tell: (event) => {
        if (!hasStarted && event.error !== undefined) problems.push(event.error)
        events.emit('repository', { ...event, repository: path })
      },
    })
    this.#watches.push(watch)
    await watch.start()
    hasStarted = true
    return withReport(watch.loaded.flatMap((name) => models.get(name) ?? []), reportOf(problems))
  }
}
