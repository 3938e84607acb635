import { systemClock } from './clock.ts'
import { resolveConfig } from './config/resolve-model-config.ts'
import type { ResolvedEngineOptions } from './config/engine-options.ts'
import type { EngineServices } from './engine-services.ts'
import { StagingPool } from './memory/staging-pool.ts'
import { ModelRegistry } from './model-registry.ts'
import type { NamedModel } from './named-model.ts'
import { EventHub } from './observability/engine-events.ts'
import { InferenceError } from './errors.ts'
import { tell } from './triton-repository/load-repository.ts'
import { readModelFolder, type RepositoryEntry } from './triton-repository/model-folder.ts'
import { checkRepository, type RepositoryOptions } from './triton-repository/repository-options.ts'
import { RepositoryWatch } from './triton-repository/watch.ts'
import type { ResolvedWatch } from './triton-repository/watch-options.ts'
import { Devices } from './workers/devices.ts'
import { KeepAlive } from './workers/keep-alive.ts'

/** How long a worker may take to leave ONNX Runtime after its work is done, in milliseconds. */
const workerExitLimitMs = 30_000

/**
 * What an engine has: models, threads, memory. Ports and threads hold on to it, so nothing here may hold on to the engine
 * itself or to a `Model`: that nobody has those any more is how an engine is known to be dropped.
 */
export class EngineResources {
  readonly models: ModelRegistry
  readonly events = new EventHub()
  readonly devices: Devices
  readonly services: EngineServices
  readonly pluginNames: readonly string[]
  /** `null` until a model has been placed. */
  staging: StagingPool | null = null
  readonly #keepAlive = new KeepAlive()
  readonly #watches: RepositoryWatch[] = []
  #nextId = 1
  #closing: Promise<void> | null = null

  constructor(options: ResolvedEngineOptions) {
    this.pluginNames = options.providers.map(({ name }) => name)
    this.devices = new Devices(options, systemClock, (event) => this.events.emit('worker', event))
    this.services = {
      clock: systemClock,
      keepAlive: this.#keepAlive,
      staging: () => this.staging!,
      nextId: () => this.#nextId++,
      changed: (event) => this.events.emit('model', event),
      useProvider: (model) => (entry) => this.devices.providers.use(model, entry),
      providers: this.devices.providers,
      place: async (model, config, place, leaving) => {
        await this.devices.place(model, config, place, leaving)
        this.staging ??= new StagingPool(this.devices.stagingMemory())
      },
      placeMore: (...args) => this.devices.placeMore(...args),
    }
    this.models = new ModelRegistry(this.services)
  }

  /**
   * Loads the models of a repository, and keeps in step with it until the engine is closed.
   *
   * @returns the models that were loaded, and why others were not.
   */
  async watch(path: string, options: RepositoryOptions, watched: ResolvedWatch): Promise<{ models: NamedModel[]; problems: InferenceError[] }> {
    const { models: names, onNote } = checkRepository(path, options)
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
          await this.models.load(name, resolveConfig(name, config, this.pluginNames), { accept })
        } catch (error) {
          throw error instanceof InferenceError ? entries.get(name)!.atField(error) : error
        }
      },
      unload: async (name, version) => {
        await this.models.get(name)?.version(version)?.end(false)
        this.staging?.trim()
      },
      tell: (event) => {
        if (!hasStarted && event.error !== undefined) problems.push(event.error)
        this.events.emit('repository', { ...event, repository: path })
      },
    })
    this.#watches.push(watch)
    await watch.start()
    hasStarted = true
    return { models: watch.loaded.flatMap((name) => this.models.get(name) ?? []), problems }
  }

  /** Finishes what was accepted, or rejects what waits of it, and gives everything back. May be called more than once. */
  close(destroy: boolean): Promise<void> {
    if (destroy) this.devices.providers.end()
    for (const watch of this.#watches) watch.close()
    const models = this.models.close(destroy)
    this.#closing ??= this.#keepAlive
      .during(models.then(() => this.devices.close(workerExitLimitMs)).then(() => this.staging?.close()))
      .finally(() => this.#keepAlive.close())
    return this.#closing
  }
}
