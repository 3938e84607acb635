import { resolve } from 'node:path'
import { KeepAlive, systemClock } from '../base/clock.ts'
import { checkPlatform } from '../base/platform.ts'
import { invalidArgument } from '../errors.ts'
import { ModelHost } from '../models/model-host.ts'
import type { StagingStats } from '../native/staging-pool.ts'
import { ArrivalFile, ArrivalRecording } from '../observe/arrival-recording.ts'
import { EventHub } from '../observe/engine-events.ts'
import {
  type EventLoopDelayStatistics,
  workerStatistics,
  type ModelStatistics,
  type WorkerStatistics,
} from '../observe/model-statistics.ts'
import { EventLoopDelay } from '../observe/model-counts.ts'
import { Observers } from '../observe/observers.ts'
import type { TraceStatistics } from '../observe/trace-writer.ts'
import { Traces } from '../observe/traces.ts'
import type { ModelOrigin, ResolvedEngineOptions, WorkerOptions } from '../options/engine-options.ts'
import { checkRecording } from '../options/method-options.ts'
import type { Capabilities } from '../run/devices.ts'
import type { EngineRepositories } from './engine-repositories.ts'
import type { ModelState } from './loaded.ts'
import { engineClosed, ModelRegistry, ModelUses, type NamedModel } from './model-registry.ts'

/** The result of {@link InferenceEngine.stats}. */
export interface EngineStatistics {
  /** By name. */
  readonly models: Readonly<Record<string, NamedStatistics>>
  /** `null` until a model has been loaded. */
  readonly staging: StagingStats | null
  /** Staging of functions, which is in shared memory; `null` until a function has been loaded. */
  readonly functionStaging: StagingStats | null
  /** Threads for sessions and functions, and their restarts and failures. */
  readonly workers: readonly WorkerStatistics[]
  /**
   * Delay of timers on the application's thread, in milliseconds, sampled every 20 ms while requests are in flight. A
   * period in which the thread was blocked counts as the samples that it missed. Loading a model counts as well. All 0 before that.
   */
  readonly eventLoopDelay: EventLoopDelayStatistics
  /** Numbers of traces started, written and lost. */
  readonly traces: TraceStatistics
}

/** Statistics of one version of a model. */
export interface VersionStatistics extends ModelStatistics {
  /** A `closed` version has released everything; it stays in the statistics until the engine is closed. */
  readonly state: ModelState
  /**
   * Whether it was opened from its compiled form, and why, or why not: with a folder made on another machine, what
   * differs. `null` for pipelines.
   */
  readonly origin: ModelOrigin | null
}

/** Statistics of the version that serves a name, and of every version that has been opened. */
export interface NamedStatistics extends VersionStatistics {
  /** The version that serves the name. */
  readonly version: number
  /** Every version that has been opened, by number. */
  readonly versions: Readonly<Record<number, VersionStatistics>>
}

/**
 * The models, threads and memory of an engine. Ports and threads refer to this object, so it must not refer to the
 * engine itself or to a `Model`: an engine is known to be dropped when those are unreachable.
 */
export class EngineResources {
  readonly clock = systemClock
  readonly keepAlive = new KeepAlive()
  readonly events = new EventHub()
  readonly observers = new Observers()
  readonly host: ModelHost
  readonly uses = new ModelUses()
  readonly models: ModelRegistry
  readonly traces: Traces
  readonly recordings = new EngineRecordings(this.observers)
  readonly pluginNames: readonly string[]
  /** Thread options, as defaults for functions. */
  readonly workers: WorkerOptions
  readonly #loopDelay = new EventLoopDelay(this.clock, this.keepAlive)
  #repositories: Promise<EngineRepositories> | null = null
  #closing: Promise<void> | null = null

  /** @throws InferenceError `ERR_PLATFORM` where no model can run. */
  constructor(options: ResolvedEngineOptions) {
    checkPlatform()
    this.workers = options.workers
    this.pluginNames = options.providers.map(({ name }) => name)
    this.keepAlive.onHeld = this.#loopDelay.begin
    this.traces = new Traces(options.trace, this.observers, this.clock, (event) =>
      this.events.emit('trace', event),
    )
    this.host = new ModelHost(options, this.clock, (event) => this.events.emit('worker', event))
    this.models = new ModelRegistry(this)
  }

  /** Model repositories; their code is loaded with the first. */
  get repositories(): Promise<EngineRepositories> {
    return (this.#repositories ??= import('./engine-repositories.ts').then(
      ({ EngineRepositories }) => new EngineRepositories(this),
    ))
  }

  /** `null` as long as no repository was asked for. */
  get usedRepositories(): Promise<EngineRepositories> | null {
    return this.#repositories
  }

  /**
   * Probes all execution providers, until the engine is closed. Keeps the process alive meanwhile, since other engines
   * may unref the probe process.
   */
  probeProviders(): Promise<void> {
    return this.keepAlive.during(this.host.devices.probeProviders())
  }

  /** See `InferenceEngine.capabilities`. */
  capabilities(): Capabilities {
    const { devices, staging, preparation } = this.host
    const models = this.models
      .all()
      .flatMap(({ name, serving: { origin } }) => (origin === null ? [] : [[name, origin] as const]))
    return devices.capabilities(staging?.stats() ?? null, {
      ...preparation.capability(),
      models: Object.fromEntries(models),
    })
  }

  /** See `InferenceEngine.stats`. */
  stats(): EngineStatistics {
    const { devices, functions, staging, functionStaging } = this.host
    return {
      models: Object.fromEntries(this.models.all().flatMap(statisticsOf)),
      staging: staging?.stats() ?? null,
      functionStaging: functionStaging?.stats() ?? null,
      workers: workerStatistics([...devices.allWorkers, ...functions.allWorkers]),
      eventLoopDelay: this.#loopDelay.statistics,
      traces: this.traces.statistics(),
    }
  }

  /** Finishes accepted requests, or rejects those that wait, and releases everything. May be called more than once. */
  close(destroy: boolean): Promise<void> {
    this.host.devices.providers.end()
    // Who asked for them has the error.
    void this.#repositories?.then((repositories) => repositories.close()).catch(() => {})
    const models = this.models.close(destroy)
    this.#closing ??= this.keepAlive
      .during(
        models
          .then(() => this.host.close())
          .finally(() => Promise.all([this.traces.close(), this.recordings.stop()])),
      )
      .finally(() => this.keepAlive.close())
    return this.#closing
  }
}

/** The statistics of a name, by that name; none before a version has been opened. */
function statisticsOf(named: NamedModel): (readonly [name: string, NamedStatistics])[] {
  const opened = named
    .all()
    .flatMap(({ version, serving: { served, state, origin } }) =>
      served === null
        ? []
        : [[version, { ...served.stats(), state, origin: origin && { ...origin } }] as const],
    )
  const found = opened.find(([version]) => version === named.serving.version) ?? opened[0]
  if (found === undefined) return []
  const [version, own] = found
  return [[named.name, { ...own, version, versions: Object.fromEntries(opened) }]]
}

const byEngine = new WeakMap<object, EngineResources>()

/** Lets adapters find the resources of an engine, which are not public. */
export function noteResources(engine: object, resources: EngineResources): void {
  byEngine.set(engine, resources)
}

/**
 * The resources of an engine.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
export function resourcesOf(engine: unknown): EngineResources {
  const resources = typeof engine === 'object' && engine !== null ? byEngine.get(engine) : undefined
  if (resources === undefined) throw invalidArgument('engine', 'an InferenceEngine', engine)
  return resources
}

/**
 * Resolves when the compiled forms of all models loaded so far are sealed, so that they outlast a restart of the system, or when
 * that was given up.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything but an engine.
 */
export function modelsCompiled(engine: unknown): Promise<void> {
  const { keepAlive, host } = resourcesOf(engine)
  return keepAlive.during(host.preparation.sealed())
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
      throw invalidArgument('path', 'a file to which no other recording is written', path, {
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
