import { resolve } from 'node:path'
import { typed } from '../options/plain-options.ts'
import { resolveConfig } from '../options/model-config.ts'
import { isPipeline, resolvePipelineConfig } from '../options/pipeline-config.ts'
import { InferenceError, invalidArgument, listNames } from '../errors.ts'
import { filePath } from '../base/files.ts'
import type { EngineResources } from './engine-resources.ts'
import type { LoadedVersion, LoadLimits, ModelVersion, NamedModel } from './model-registry.ts'
import {
  loadError,
  modelNames,
  noFolder,
  readRepository,
  reportOf,
  reportNotes,
} from '../features/triton-repository/read-repository.ts'
import {
  readModelFolder,
  type RepositoryEntry,
  type VersionConfig,
} from '../features/triton-repository/model-folder.ts'
import {
  checkRepositoryOptions,
  type RepositoryOptions,
  type RepositoryReport,
  type ResolvedRepositoryOptions,
  type ResolvedWatch,
  withReport,
} from '../features/triton-repository/repository-options.ts'
import { RepositoryWatch } from '../features/triton-repository/watch.ts'

/** The model repositories of an engine: loads their models, and keeps watched ones up to date. */
export class EngineRepositories {
  readonly #engine: EngineResources
  /** Folders whose models may be loaded by name. */
  readonly #paths = new Set<string>()
  /** Versions that were loaded from a repository. */
  readonly #versions = new WeakSet<ModelVersion>()
  readonly #watches: RepositoryWatch[] = []

  constructor(engine: EngineResources) {
    this.#engine = engine
  }

  /** Whether there are no repositories. */
  get isEmpty(): boolean {
    return this.#paths.size === 0
  }

  /** See `InferenceEngine.loadRepository`. */
  async load(given: string | URL, options: RepositoryOptions): Promise<NamedModel[] & RepositoryReport> {
    const checked = checkRepositoryOptions(options)
    const path = pathOf(given)
    this.#paths.add(resolve(path))
    return checked.watch === null ? this.#loadAll(path, checked) : this.#watch(path, checked, checked.watch)
  }

  /** The names of the models that are in the folders now. */
  async names(): Promise<string[]> {
    return [...new Set([...(await this.#namesByPath()).values()].flat())]
  }

  /**
   * Loads a model from the first of the repositories that has it, as its folder is now, and unloads the versions that
   * its policy no longer selects.
   *
   * @param config replaces the configuration in its folder: Triton's, as JSON.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` if no repository has it; `ERR_MODEL_CONFIG`; errors of the load.
   */
  async loadNamed(name: string, limits: LoadLimits, config?: string): Promise<NamedModel> {
    const entry = await this.#read(name, config)
    const results = await Promise.allSettled(entry.configs.map((each) => this.#load(entry, each, limits)))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    const loaded = results.map((result) => (result as PromiseFulfilledResult<LoadedVersion>).value)
    const { named } = loaded[0]!
    for (const version of named.all())
      if (this.#versions.has(version) && !loaded.some((each) => each.version === version))
        void this.#unload(version)
    return named
  }

  /** Stops watching; loaded models stay. */
  close(): void {
    for (const watch of this.#watches) watch.close()
  }

  /** Loads all versions of all models at once, and waits for every one. Models that loaded stay even if others fail. */
  async #loadAll(
    path: string,
    { models: wanted, onNote, failures }: ResolvedRepositoryOptions,
  ): Promise<NamedModel[] & RepositoryReport> {
    const contents = await readRepository(path, wanted)
    if (onNote !== undefined) reportNotes(contents.entries, onNote)
    const results = await Promise.allSettled(
      contents.entries.flatMap((entry) => entry.configs.map((config) => this.#load(entry, config, {}))),
    )
    const models = new Set(
      results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.named] : [])),
    )
    const refused = results.flatMap((result) =>
      result.status === 'rejected' ? [result.reason as InferenceError] : [],
    )
    const report = reportOf([...contents.unsupported, ...contents.failures], refused)
    const failed = report.failed.map(({ error }) => error)
    if (models.size === 0 && failed.length > 0 && failed.every(({ code }) => code === 'ERR_CLOSED'))
      throw failed[0]!
    const asked =
      wanted === undefined ? [] : [...report.unsupported, ...report.missing].map(({ error }) => error)
    const errors = [...asked, ...failed]
    if (errors.length > 0 && failures === 'reject') throw loadError(path, models.size, errors)
    return withReport([...models], report)
  }

  /** An error about the configuration names the file that it comes from. */
  async #load(
    { name, atField }: RepositoryEntry,
    config: VersionConfig,
    limits: LoadLimits,
  ): Promise<LoadedVersion> {
    const { models, pluginNames } = this.#engine
    try {
      const resolved = isPipeline(config)
        ? resolvePipelineConfig(name, config)
        : resolveConfig(name, config, pluginNames)
      const loaded = await models.load(name, resolved, limits)
      this.#versions.add(loaded.version)
      return loaded
    } catch (error) {
      throw error instanceof InferenceError ? atField(error) : error
    }
  }

  async #read(name: string, config: string | undefined): Promise<RepositoryEntry> {
    const byPath = await this.#namesByPath()
    for (const [path, names] of byPath) if (names.includes(name)) return readModelFolder(path, name, config)
    const all = [...byPath.values()].flat()
    throw invalidArgument('name', `a model of the repositories (${listNames(all)})`, name, {
      code: 'ERR_MODEL_NOT_FOUND',
      model: name,
      hint: 'Give its configuration to load a model from elsewhere',
    })
  }

  /** The names of the models now in each repository. */
  async #namesByPath(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>()
    for (const path of this.#paths) found.set(path, await modelNames(path).catch((): string[] => [])) // it may be gone
    return found
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
    { models: names, onNote }: ResolvedRepositoryOptions,
    watched: ResolvedWatch,
  ): Promise<NamedModel[] & RepositoryReport> {
    const { models, events } = this.#engine
    const folder = resolve(path) // absolute: the process may change its working directory
    const entryOf = new WeakMap<VersionConfig, RepositoryEntry>()
    const problems: InferenceError[] = []
    let hasStarted = false
    const watch = new RepositoryWatch(path, names, watched, this.#engine.clock, {
      read: async (name) => {
        const entry = await readModelFolder(folder, name)
        for (const config of entry.configs) entryOf.set(config, entry)
        if (onNote !== undefined) reportNotes([entry], onNote)
        return entry.configs
      },
      load: async (name, config, accept) => {
        if (isPipeline(config)) await watch.others(name)
        await this.#load(entryOf.get(config)!, config, { accept })
      },
      unload: async (name, version) => {
        const left = models.get(name)?.version(version)
        const refusal = left === undefined ? null : this.#engine.uses.refusal(left)
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
