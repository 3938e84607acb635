import { resolve } from 'node:path'
import { typed } from '../options/plain-options.ts'
import { resolveConfig } from '../options/model-config.ts'
import { isPipeline, resolvePipelineConfig } from '../options/pipeline-config.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { filePath } from '../base/files.ts'
import type { EngineResources } from './engine-resources.ts'
import type { LoadLimits, ModelVersion, NamedModel } from './model-registry.ts'
import {
  loadRepository,
  modelNames,
  noFolder,
  reportOf,
  Repositories,
  tell,
} from '../features/triton-repository/load-repository.ts'
import {
  readModelFolder,
  type RepositoryEntry,
  type VersionConfig,
} from '../features/triton-repository/model-folder.ts'
import {
  checkRepository,
  type RepositoryOptions,
  type RepositoryReport,
  type ResolvedWatch,
  takeWatch,
  withReport,
} from '../features/triton-repository/repository-options.ts'
import { RepositoryWatch } from '../features/triton-repository/watch.ts'

/** The model repositories of an engine: loads their models, and keeps watched ones up to date. */
export class EngineRepositories {
  readonly #engine: EngineResources
  readonly #known = new Repositories()
  /** Versions that were loaded from a repository. */
  readonly #versions = new WeakSet<ModelVersion>()
  readonly #watches: RepositoryWatch[] = []

  constructor(engine: EngineResources) {
    this.#engine = engine
  }

  /** Whether there are no repositories. */
  get isEmpty(): boolean {
    return this.#known.isEmpty
  }

  /** Loads the models of a repository; see {@link loadRepository}. */
  async load(given: string | URL, options: RepositoryOptions): Promise<NamedModel[] & RepositoryReport> {
    const { watch, others } = takeWatch(options)
    const path = pathOf(given)
    this.#known.add(path)
    return watch === null
      ? loadRepository(path, others, async (name, config) => (await this.#load(name, config, {})).named)
      : this.#watch(path, others, watch)
  }

  /** The names of the models that are in the folders now. */
  async names(): Promise<string[]> {
    return [...new Set([...(await this.#known.names()).values()].flat())]
  }

  /**
   * Loads a model from one of the repositories, as its folder is now, and unloads the versions that its policy no
   * longer selects.
   *
   * @param config replaces the configuration in its folder: Triton's, as JSON.
   */
  async loadNamed(name: string, limits: LoadLimits, config?: string): Promise<NamedModel> {
    const wanted = new Set<ModelVersion>()
    const load = async (_: string, each: VersionConfig): Promise<NamedModel> => {
      const loaded = await this.#load(name, each, limits)
      wanted.add(loaded.version)
      return loaded.named
    }
    const named = await this.#known.load(name, load, config)
    for (const version of named.all())
      if (this.#versions.has(version) && !wanted.has(version)) void this.#unload(version)
    return named
  }

  /** Stops watching; loaded models stay. */
  close(): void {
    for (const watch of this.#watches) watch.close()
  }

  async #load(
    name: string,
    config: VersionConfig,
    limits: LoadLimits,
  ): Promise<{ named: NamedModel; version: ModelVersion }> {
    const { models, pluginNames } = this.#engine
    const resolved = isPipeline(config)
      ? resolvePipelineConfig(name, config)
      : resolveConfig(name, config, pluginNames)
    const loaded = await models.load(name, resolved, limits)
    this.#versions.add(loaded.version)
    return loaded
  }

  /** A model that a pipeline uses stays until the pipeline is gone. */
  async #unload(version: ModelVersion | undefined): Promise<void> {
    if (version === undefined) return
    await this.#engine.uses.whenFree(version)
    await version.end(false)
    this.#engine.host.trim()
  }

  /** Loads the models of a repository, and keeps them up to date until the engine closes. */
  async #watch(
    path: string,
    options: RepositoryOptions,
    watched: ResolvedWatch,
  ): Promise<NamedModel[] & RepositoryReport> {
    const { models: names, onNote } = checkRepository(path, options)
    const { models, events } = this.#engine
    const folder = resolve(path) // absolute: the process may change its working directory
    const entryOf = new WeakMap<VersionConfig, RepositoryEntry>()
    const problems: InferenceError[] = []
    let hasStarted = false
    const watch = new RepositoryWatch(path, names, watched, this.#engine.clock, {
      read: async (name) => {
        const entry = await readModelFolder(folder, name)
        for (const config of entry.configs) entryOf.set(config, entry)
        if (onNote !== undefined) tell([entry], onNote)
        return entry.configs
      },
      load: async (name, config, accept) => {
        try {
          if (isPipeline(config)) await watch.others(name)
          await this.#load(name, config, { accept })
        } catch (error) {
          throw error instanceof InferenceError ? entryOf.get(config)!.atField(error) : error
        }
      },
      unload: async (name, version) => {
        const left = models.get(name)?.version(version)
        const refusal = left === undefined ? null : this.#engine.uses.refusalOf(left)
        if (refusal !== null) throw refusal // do not wait: it may reappear, or the pipeline may be loaded without it
        await this.#unload(left)
      },
      tell: (event) => {
        if (!hasStarted && event.error !== undefined) problems.push(event.error)
        events.emit('repository', { ...event, repository: path })
      },
    })
    this.#watches.push(watch)
    await this.#engine.keepAlive.during(watch.start())
    hasStarted = true
    return withReport(
      watch.loaded.flatMap((name) => models.get(name) ?? []),
      reportOf([...(await absentModels(path, names)), ...problems]),
    )
  }
}

/** The errors of requested models that do not exist yet. */
async function absentModels(path: string, names: readonly string[] = []): Promise<InferenceError[]> {
  if (names.length === 0) return []
  const present = await modelNames(path)
  return names.filter((name) => !present.includes(name)).map((name) => noFolder(name, present))
}

function pathOf(given: unknown): string {
  let path: string | null
  try {
    path = filePath(given)
  } catch (error) {
    throw typed('path', error)
  }
  if (path === null) throw invalidArgument('path', 'the path of a model repository, or a file: URL', given)
  return path
}
