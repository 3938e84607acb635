import { systemClock, type Clock, KeepAlive } from '../base/clock.ts'
import type { ResolvedEngineOptions, WorkerOptions } from '../options/engine-options.ts'
import { asItIs } from '../models/compiled-models/prepared-model.ts'
import { ModelPreparation } from '../models/compiled-models/model-preparation.ts'
import { EngineRepositories } from './engine-repositories.ts'
import { StagingPool } from '../native/staging-pool.ts'
import { ModelRegistry, ModelUses, type ServableConfig, engineClosed } from './model-registry.ts'
import { EventHub, type ModelEvent, type SequenceEvent } from '../observe/engine-events.ts'
import { EventLoopDelay } from '../observe/latency-histogram.ts'
import { Traces } from '../observe/traces.ts'
import { Observers } from '../observe/observers.ts'
import { workerStatistics, type WorkerStatistics } from '../observe/model-statistics.ts'
import { Devices, type Capabilities } from '../run/devices.ts'
import { FunctionPools } from '../run/function-pools.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { Placement } from '../options/session-options.ts'
import type { ModelVersion, NamedModel } from './model-registry.ts'
import type { Preparing } from '../models/scaling/model-instances.ts'
import type { EngineProviders } from '../run/engine-providers.ts'
import type { Worker } from '../run/worker.ts'
import { invalidArgument, InferenceError } from '../errors.ts'
import { resolve } from 'node:path'
import { ArrivalFile } from '../observe/arrivals/arrival-file.ts'
import { ArrivalRecording } from '../observe/arrivals/arrival-recording.ts'
import { checkRecording } from '../options/method-options.ts'
import { isMusl, isSince, otherRuntime } from '../base/platform.ts'

/** Milliseconds a worker may take to leave ONNX Runtime after its work is done. */
const workerExitLimitMs = 30_000

/**
 * The models, threads and memory of an engine. Ports and threads refer to this object, so it must not refer to the
 * engine itself or to a `Model`: an engine is known to be dropped when those are unreachable.
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
  /** Thread options, as defaults for functions. */
  readonly workers: WorkerOptions
  /** `null` until a model has been placed. */
  staging: StagingPool | null = null
  /** Staging of functions, which can use only shared memory; `null` until a function has been placed. */
  functionStaging: StagingPool | null = null
  readonly #keepAlive = new KeepAlive()
  readonly loopDelay = new EventLoopDelay(systemClock, this.#keepAlive)
  #nextId = 1
  #closing: Promise<void> | null = null

  /** @throws InferenceError `ERR_PLATFORM` where no model can run. */
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

  /**
   * Probes all execution providers, until the engine is closed. Keeps the process alive meanwhile, since other engines
   * may unref the probe process.
   */
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

  /** Finishes accepted requests, or rejects those that wait, and releases everything. May be called more than once. */
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

/** The services an engine offers to its models. */
export interface EngineServices extends Preparing {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  /** Observers of the requests and batches of all its models. */
  readonly observers: Observers
  /** The pool with the slots of a model. */
  staging(config: ResolvedConfig): StagingPool
  /** Frees unused staging memory. */
  trim(): void
  nextId(): number
  /**
   * Finds the model of a pipeline step; waits for a load of it that is in progress.
   *
   * @param asker the pipeline.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND`.
   */
  find(name: string, version: number | undefined, asker?: string): NamedModel | ModelVersion
  readonly uses: ModelUses
  /** The execution providers of sessions. */
  readonly providers: Pick<EngineProviders, 'lacking' | 'opened'>
  /** Called when the model is able to serve. If it rejects, the load fails with that error. */
  accept?(): Promise<void>
  /** Called when the state of a model changes. */
  changed(event: ModelEvent): void
  /** Called when a sequence ends. */
  sequenceOver(event: SequenceEvent): void
  /**
   * Chooses a worker for every instance and calls `place` for each. Resolves when their threads have started.
   *
   * @param leaving the workers of sessions that are released once this model serves.
   */
  place(
    model: string,
    config: ResolvedConfig,
    place: (worker: Worker, placement: Placement, group: number) => void,
    leaving?: readonly Worker[],
  ): Promise<void>
  /** As `place`, for more instances next to a placed one. Workers in `apartFrom` are used only if there is no other. */
  placeMore(
    beside: Worker,
    count: number,
    apartFrom: ReadonlySet<Worker>,
    place: (worker: Worker) => void,
    leaving?: readonly Worker[],
  ): Promise<void>
  /** Called when a session on a worker has been closed. */
  released(worker: Worker): Promise<void>
}

/** Internal parts of an engine for other modules; not public. */
interface EngineParts {
  readonly observers: Observers
  readonly repositories: EngineRepositories
  readonly models: ModelRegistry
}

const byEngine = new WeakMap<object, EngineParts>()

export function noteParts(engine: object, parts: EngineParts): void {
  byEngine.set(engine, parts)
}

/**
 * The observers of an engine.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
export function observersOf(engine: unknown): Observers {
  return partsOf(engine).observers
}

/**
 * The repositories of an engine.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
export function repositoriesOf(engine: unknown): EngineRepositories {
  return partsOf(engine).repositories
}

/** The configuration of a model version, with defaults. */
export function configOf(engine: unknown, name: string, version: number): ServableConfig {
  return partsOf(engine).models.findVersion(name, version).serving.config
}

function partsOf(engine: unknown): EngineParts {
  const parts = typeof engine === 'object' && engine !== null ? byEngine.get(engine) : undefined
  if (parts === undefined) throw invalidArgument('engine', 'an InferenceEngine', engine)
  return parts
}

/** The arrival recordings of an engine, which end with it. */
class EngineRecordings {
  readonly #observers: Observers
  /** By file; `null` while the file is being opened. */
  readonly #running = new Map<string, ArrivalRecording | null>()
  #ended = false

  constructor(observers: Observers) {
    this.#observers = observers
  }

  async start(given: unknown, options: unknown): Promise<ArrivalRecording> {
    const { path, models } = checkRecording(given, options)
    const place = resolve(path)
    if (this.#running.has(place))
      throw invalidArgument('path', 'a file that no other recording is written to', path, {
        hint: 'Stop that one first',
      })
    this.#running.set(place, null)
    const ended = () => void this.#running.delete(place)
    try {
      const file = await ArrivalFile.create(path)
      if (!this.#ended) {
        const recording = new ArrivalRecording(file, models, this.#observers, systemClock, ended)
        this.#running.set(place, recording)
        return recording
      }
      await file.close()
    } catch (error) {
      ended()
      throw error
    }
    throw engineClosed()
  }

  async stop(): Promise<void> {
    this.#ended = true
    await Promise.all([...this.#running.values()].map((recording) => recording?.stop()))
  }
}

const oldestNode = [20, 19] as const

/** Facts about the platform of a process. */
export interface PlatformFacts {
  readonly versions: Readonly<Record<string, string | undefined>>
  /** Whether it is linked with the musl C library, as on Alpine. */
  readonly musl: boolean
}

/** Why an engine cannot run in this process, with advice; `null` if it can. */
export function platformError(facts: PlatformFacts): InferenceError | null {
  const runtime = otherRuntime(facts.versions)
  if (runtime !== null) {
    return refusal(
      'Node.js itself',
      runtime,
      'Start the engine in a process of Node.js, served by `serve()` of zerohop/processes, and ask it from here by `connect()`',
    )
  }
  if (!isSince(facts.versions['node']!, oldestNode))
    return refusal(
      'Node.js 20.19 or newer',
      `Node.js ${facts.versions['node']}`,
      'Install a newer version of Node.js',
    )
  if (facts.musl) {
    return refusal(
      'Linux with glibc',
      'Node.js for musl (as on Alpine)',
      'onnxruntime-node has no binaries for musl: use an image such as node:22-slim instead of node:22-alpine',
    )
  }
  return null
}

function refusal(expected: string, received: string, next: string): InferenceError {
  return new InferenceError(
    'ERR_PLATFORM',
    `zerohop cannot run models here: expected ${expected}, received ${received}. ${next}.`,
    { expected, received },
  )
}

let facts: PlatformFacts | undefined

/** @throws InferenceError `ERR_PLATFORM` where an engine cannot run. */
export function checkPlatform(): void {
  facts ??= { versions: process.versions, musl: isMusl() }
  const error = platformError(facts)
  if (error !== null) throw error
}
