import { statSync } from 'node:fs'
import type { Clock } from '../base/clock.ts'
import { StagingPool } from '../native/staging-pool.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import type { ResolvedEngineOptions } from '../options/engine-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { Placement, SessionRuntime } from '../options/session-options.ts'
import { Devices } from '../run/devices.ts'
import { FunctionPools } from '../run/function-pools.ts'
import type { Worker } from '../run/worker.ts'
import type { ModelProvider } from '../tensor/metadata.ts'
import { asItIs, ModelPreparation, type PreparedModel } from './compiled-models/model-preparation.ts'

/** Milliseconds a worker may take to leave ONNX Runtime after its work is done. */
const workerExitLimitMs = 30_000

/**
 * Where the models and functions of an engine run: their workers, their staging memory, and what their sessions are
 * opened from.
 */
export class ModelHost {
  readonly clock: Clock
  readonly devices: Devices
  readonly functions: FunctionPools
  readonly preparation: ModelPreparation
  /** `null` until a model has been placed. */
  staging: StagingPool | null = null
  /** Staging of functions, which can use only shared memory; `null` until a function has been placed. */
  functionStaging: StagingPool | null = null
  readonly #options: ResolvedEngineOptions
  #nextId = 1

  /** @param changed called when a worker starts, restarts or fails. */
  constructor(options: ResolvedEngineOptions, clock: Clock, changed: (event: WorkerEvent) => void) {
    this.#options = options
    this.clock = clock
    this.devices = new Devices(options, clock, changed)
    this.functions = new FunctionPools(clock, changed)
    this.preparation = new ModelPreparation(options)
  }

  /** An id for a session or a slot. */
  nextId(): number {
    return this.#nextId++
  }

  /**
   * Chooses a worker for every instance of a model and calls `place` for each. Resolves when their threads have
   * started.
   *
   * @param leaving the workers of sessions that are released once this model serves.
   */
  async place(
    model: string,
    config: ResolvedConfig,
    place: (worker: Worker, placement: Placement, group: number) => void,
    leaving: readonly Worker[],
  ): Promise<void> {
    if (config.function !== null) {
      this.functionStaging ??= new StagingPool(this.functions.stagingMemory(this.#options.staging))
      return this.functions.place(model, config, place)
    }
    await this.devices.place(model, config, place, leaving)
    this.staging ??= new StagingPool(this.devices.stagingMemory())
  }

  /**
   * Starts what takes long to start, while the code and the files of a load are read: the process that tries the model, and, with the
   * binding, the thread that its first instance will have. What is wrong is said later.
   */
  startAhead(model: string, config: ResolvedConfig): void {
    if (config.function !== null || config.isSmallGraph) return
    try {
      if (config.bytes === null && !statSync(config.path).isFile()) return
      this.preparation.startTrial(model, config, this.devices.expectedRuntime(config))
      this.devices.startThread(config)
    } catch {
      // the load meets that, too
    }
  }

  /** Whether a process tries the model that was started ahead of its load. */
  triesAhead(config: ResolvedConfig): boolean {
    return this.preparation.triesAhead(config)
  }

  /** Ends what was started ahead of a load and is not in use; its thread stays for the next one. */
  endAhead(config: ResolvedConfig): void {
    this.preparation.endAhead(config)
  }

  /** As {@link place}, for more instances next to a placed one. Workers in `apartFrom` are used only if there is no other. */
  placeMore(
    beside: Worker,
    count: number,
    apartFrom: ReadonlySet<Worker>,
    place: (worker: Worker) => void,
    leaving: readonly Worker[],
  ): Promise<void> {
    return this.functions.made(beside)
      ? this.functions.placeMore(beside, count, place)
      : this.devices.placeMore(beside, count, apartFrom, place, leaving)
  }

  /** Called when a session on a worker has been closed. */
  released(worker: Worker): Promise<void> {
    return this.functions.released(worker)
  }

  /** The pool with the slots of a model that has been placed. */
  stagingOf(config: ResolvedConfig): StagingPool {
    return config.function === null ? this.staging! : this.functionStaging!
  }

  /** Frees unused staging memory. */
  trim(): void {
    this.staging?.trim()
  }

  /**
   * Decides what a model's sessions are opened from, once it is placed; rejects with the reason of `signal` when that
   * fires.
   */
  async prepare(model: string, config: ResolvedConfig, signal: AbortSignal): Promise<PreparedModel> {
    if (config.function !== null || config.isSmallGraph) return asItIs('it is a function')
    return this.preparation.prepare(model, config, () => this.devices.runtimeFor(config), signal)
  }

  /** The runtime that opens a model's sessions. */
  sessionRuntime(model: string): SessionRuntime {
    const { ortVersion, providers } = this.devices
    return { ortVersion, useProvider: (entry) => providers.use(model, entry) }
  }

  /** Whether sessions that could not be opened were to have a provider that turns out to be absent. */
  async lacksProvider(config: ResolvedConfig): Promise<boolean> {
    return config.function === null && this.devices.providers.lacking(config)
  }

  /** Notes that a model's sessions are open, and returns the providers that they have. */
  providersOf(config: ResolvedConfig): readonly ModelProvider[] {
    return config.function === null ? this.devices.providers.opened(config) : []
  }

  /** Ends all threads, and frees staging memory. No model may be left. */
  async close(): Promise<void> {
    await Promise.all([this.devices.close(workerExitLimitMs), this.functions.close(workerExitLimitMs)])
    this.staging?.close()
  }
}
