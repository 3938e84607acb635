import { systemClock } from '../base/clock.ts'
import type { ResolvedEngineOptions, WorkerOptions } from '../options/engine-options.ts'
import { asItIs } from '../models/compiled-models/prepared-model.ts'
import { ModelPreparation } from '../models/compiled-models/model-preparation.ts'
import { EngineRecordings } from './engine-recordings.ts'
import { EngineRepositories } from './engine-repositories.ts'
import type { EngineServices } from './engine-services.ts'
import { StagingPool } from '../native/staging-pool.ts'
import { ModelRegistry } from './model-registry.ts'
import { ModelUses } from './model-uses.ts'
import { EventHub } from '../observe/engine-events.ts'
import { checkPlatform } from './platform-error.ts'
import { EventLoopDelay } from '../observe/event-loop-delay.ts'
import { Traces } from '../observe/traces.ts'
import { Observers } from '../observe/observers.ts'
import { workerStatistics, type WorkerStatistics } from '../observe/worker-statistics.ts'
import { Devices, type Capabilities } from '../run/devices.ts'
import { FunctionPools } from '../run/function-pools.ts'
import { KeepAlive } from '../run/keep-alive.ts'

/** How long a worker may take to leave ONNX Runtime after its work is done, in milliseconds. */
const workerExitLimitMs = 30_000

/**
 * What an engine has: models, threads, memory. Ports and threads hold on to it, so nothing here may hold on to the engine
 * itself or to a `Model`: that nobody has those any more is how an engine is known to be dropped.
 */
export class EngineResources {
  readonly models: ModelRegistry
  readonly repositories: EngineRepositories
  readonly events = new EventHub()
  readonly uses = new ModelUses()
  readonly observers = new Observers()
  readonly traces: Traces
  readonly recordings = new EngineRecordings(this.observers)
  readonly devices: Devices
  readonly services: EngineServices
  readonly pluginNames: readonly string[]
  readonly preparation: ModelPreparation
  readonly functions: FunctionPools
  /** Options of threads, for what functions leave out. */
  readonly workers: WorkerOptions
  /** `null` until a model has been placed. */
  staging: StagingPool | null = null
  /** Of functions, which see shared memory alone; `null` until one has been placed. */
  functionStaging: StagingPool | null = null
  readonly #keepAlive = new KeepAlive()
  readonly loopDelay = new EventLoopDelay(systemClock, this.#keepAlive)
  #nextId = 1
  #closing: Promise<void> | null = null

  /** @throws InferenceError `ERR_PLATFORM` where no model can be run. */
  constructor(options: ResolvedEngineOptions) {
    checkPlatform()
    this.traces = new Traces(options.trace, this.observers, systemClock, (event) =>
      this.events.emit('trace', event),
    )
    this.workers = options.workers
    this.#keepAlive.onHeld = this.loopDelay.begin
    this.pluginNames = options.providers.map(({ name }) => name)
    this.devices = new Devices(options, systemClock, (event) => this.events.emit('worker', event))
    this.preparation = new ModelPreparation(options)
    this.functions = new FunctionPools(systemClock, (event) => this.events.emit('worker', event))
    this.services = {
      clock: systemClock,
      keepAlive: this.#keepAlive,
      observers: this.observers,
      staging: (config) => (config.function === null ? this.staging! : this.functionStaging!),
      trim: () => this.staging?.trim(),
      nextId: () => this.#nextId++,
      find: (name, version, asker) =>
        version === undefined ? this.models.find(name, asker) : this.models.findVersion(name, version, asker),
      uses: this.uses,
      changed: (event) => this.events.emit('model', event),
      sequenceOver: (event) => this.events.emit('sequence', event),
      sessionRuntime: (model) => ({
        ortVersion: this.devices.ortVersion,
        useProvider: (entry) => this.devices.providers.use(model, entry),
      }),
      providers: {
        lacking: async (config) => config.function === null && this.devices.providers.lacking(config),
        opened: (config) => (config.function === null ? this.devices.providers.opened(config) : []),
      },
      prepare: async (model, config, signal) => {
        if (config.function !== null || config.isSmallGraph) return asItIs('it is a function')
        return this.preparation.prepare(model, config, () => this.devices.runtimeFor(config), signal)
      },
      place: async (model, config, place, leaving) => {
        if (config.function !== null) {
          this.functionStaging ??= new StagingPool(this.functions.stagingMemory(options.staging))
          return this.functions.place(model, config, place)
        }
        await this.devices.place(model, config, place, leaving)
        this.staging ??= new StagingPool(this.devices.stagingMemory())
      },
      placeMore: (beside, count, apartFrom, place, leaving) =>
        this.functions.made(beside)
          ? this.functions.placeMore(beside, count, place)
          : this.devices.placeMore(beside, count, apartFrom, place, leaving),
      released: (worker) => this.functions.released(worker),
    }
    this.models = new ModelRegistry(this.services)
    const { models, uses, events, pluginNames } = this
    const keepAlive = this.#keepAlive
    this.repositories = new EngineRepositories({
      models,
      uses,
      events,
      pluginNames,
      keepAlive,
      trim: () => this.staging?.trim(),
    })
  }

  get workerStatistics(): readonly WorkerStatistics[] {
    return workerStatistics([...this.devices.allWorkers, ...this.functions.allWorkers])
  }

  /** Tries all execution providers, until the engine is closed. The process lives on meanwhile: other engines may let go of what tries them. */
  probeProviders(): Promise<void> {
    return this.#keepAlive.during(this.devices.probeProviders())
  }

  /** See `InferenceEngine.capabilities`. */
  capabilities(): Capabilities {
    const { devices, staging, preparation } = this
    const models = this.models
      .all()
      .flatMap(({ name, serving: { origin } }) => (origin === null ? [] : [[name, origin] as const]))
    return devices.capabilities(staging?.stats() ?? null, {
      ...preparation.capability(),
      models: Object.fromEntries(models),
    })
  }

  /** Finishes what was accepted, or rejects what waits of it, and gives everything back. May be called more than once. */
  close(destroy: boolean): Promise<void> {
    this.devices.providers.end()
    this.repositories.close()
    const models = this.models.close(destroy)
    this.#closing ??= this.#keepAlive
      .during(
        models
          .then(() =>
            Promise.all([this.devices.close(workerExitLimitMs), this.functions.close(workerExitLimitMs)]),
          )
          .then(() => this.staging?.close())
          .finally(() => Promise.all([this.traces.close(), this.recordings.stop()])),
      )
      .finally(() => this.#keepAlive.close())
    return this.#closing
  }
}
