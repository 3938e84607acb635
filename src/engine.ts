import { closeWhenDropped, keepWith, notDropped } from './dropped-engines.ts'
import { EngineResources } from './engine-resources.ts'
import { LoadedModel } from './loaded-model.ts'
import { resolveEngineOptions, type EngineOptions } from './config/engine-options.ts'
import { checkCloseOptions, type CloseOptions } from './config/close-options.ts'
import { checkLoadOptions, type LoadOptions } from './config/load-options.ts'
import { InferenceError, invalidArgument } from './errors.ts'
import type { ModelConfig } from './config/model-config.ts'
import type { InferOptions, ReportedOutputs } from './config/infer-options.ts'
import type { AnySignature, ModelSignature, OutputName, WantedOutputs } from './config/model-signature.ts'
import { Model } from './model.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { EngineEvents } from './observability/engine-events.ts'
import { untilAborted } from './request/abort-watch.ts'
import { resolveConfig } from './config/resolve-model-config.ts'
import type { ModelStatistics } from './observability/model-stats.ts'
import type { Capabilities } from './workers/devices.ts'
import { loadRepository, type RepositoryOptions } from './triton-repository/load-repository.ts'
import type { StagingStats } from './memory/staging-pool.ts'

/** What {@link InferenceEngine.stats} returns. */
export interface EngineStatistics {
  readonly models: Readonly<Record<string, ModelStatistics>>
  /** `null` until a model has been loaded. */
  readonly staging: StagingStats | null
}

/**
 * Loads ONNX models once and serves every caller in the process from them. Cheap to make: threads and memory come with
 * the first model. An idle engine does not keep the process alive; a request in flight does.
 *
 * Close it when it is not needed any more. One that is dropped instead is closed, with a warning, when the garbage
 * collector finds that neither it nor any of its models can be reached.
 */
export class InferenceEngine {
  readonly #resources: EngineResources
  readonly #models: ModelRegistry
  /** What callers hold of the models; in the engine's hands only, see {@link EngineResources}. */
  readonly #facades = new WeakMap<LoadedModel, Model>()
  #closed = false

  /** @throws InferenceError `ERR_INVALID_ARG` for an unknown or impossible option. */
  constructor(options?: EngineOptions) {
    this.#resources = new EngineResources(resolveEngineOptions(options))
    this.#models = this.#resources.models
    closeWhenDropped(this, this.#resources)
  }

  /**
   * Loads a model; resolves when every instance is open and warmed.
   *
   * A load that rejects leaves nothing: what it opened is released, and its name is free.
   *
   * @param name under which the model is known to this engine. One that failed after it was ready gives its name up.
   * @throws InferenceError `ERR_MODEL_CONFIG`, `ERR_MODEL_NOT_FOUND` (no such file), `ERR_MODEL_LOAD`,
   * `ERR_NATIVE_LOAD` (onnxruntime-node cannot be loaded, or native memory that was asked for), `ERR_INVALID_ARG` or
   * `ERR_CLOSED`; when `options.signal` fires, its reason. What failed for want of a worker thread can be loaded again once
   * the cause is gone.
   */
  async load<M extends ModelSignature = AnySignature>(name: string, config: ModelConfig, options: LoadOptions = {}): Promise<Model<M>> {
    this.#checkOpen()
    if (typeof name !== 'string' || name === '') throw invalidArgument('name', 'a model name', name)
    const { signal } = checkLoadOptions(options)
    signal?.throwIfAborted()
    const resolved = resolveConfig(name, config, this.#resources.pluginNames)
    const failed = this.#models.get(name)
    if (failed?.state === 'failed') await untilAborted(this.#unload(failed), signal)
    this.#checkOpen()
    const model = new LoadedModel(name, resolved, this.#resources.services)
    const facade = new Model(name, model, () => this.#unload(model))
    keepWith(facade, this)
    this.#facades.set(model, facade)
    await this.#models.load(model, signal)
    return facade as unknown as Model<M>
  }

  /**
   * Loads the models of a Triton model repository, `<model>/config.pbtxt` (optional) and `<model>/<version>/model.onnx`,
   * all at once, each under the name of its folder. Waits for all of them; when some failed it rejects, and those that
   * could be loaded stay ready.
   *
   * @param path of the repository.
   * @throws InferenceError `ERR_MODEL_LOAD`, whose `cause` is an `AggregateError` with one `InferenceError` per model that
   * failed; `ERR_MODEL_NOT_FOUND` (no such folder), `ERR_INVALID_ARG` or `ERR_CLOSED`.
   */
  async loadRepository(path: string, options: RepositoryOptions = {}): Promise<Model[]> {
    this.#checkOpen()
    return loadRepository(path, options, (name, config) => this.load(name, config))
  }

  /**
   * As {@link Model.infer} of the model of that name, whose signature `M` is taken on trust, as by {@link model}.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when no model has that name, and what {@link Model.infer} rejects with.
   */
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options: InferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<WantedOutputs<M, Name>>>
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options?: InferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options?: InferOptions<Name, boolean>,
  ): Promise<WantedOutputs<M, Name> | ReportedOutputs<WantedOutputs<M, Name>>>
  infer(name: string, feeds: AnySignature['inputs'], options?: InferOptions<string, boolean>): Promise<unknown> {
    if (this.#closed) return Promise.reject(closedError())
    const model = this.#models.get(name)
    return model === undefined ? Promise.reject(this.#models.notFound(name)) : this.#facades.get(model)!.infer(feeds, options)
  }

  /**
   * The model of that name, in whatever state it is. Its signature `M` is taken on trust: nothing is checked.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when no model has that name.
   */
  model<M extends ModelSignature = AnySignature>(name: string): Model<M> {
    const model = this.#models.get(name)
    if (model === undefined) throw this.#models.notFound(name)
    return this.#facades.get(model) as unknown as Model<M>
  }

  /** The models of this engine: loading, ready and draining ones, and those that failed after they were ready. */
  models(): Model[] {
    return this.#models.all().map((model) => this.#facades.get(model)!)
  }

  /**
   * Takes no more requests for the model, finishes those accepted, and releases it.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` or `ERR_CLOSED`.
   */
  async unload(name: string): Promise<void> {
    this.#checkOpen()
    const model = this.#models.get(name)
    if (model === undefined) throw this.#models.notFound(name)
    await this.#unload(model)
  }

  /**
   * Calls `listener` with what happens to models or worker threads, soon after it has; the same is published on the
   * diagnostics channels `zerohop:model` and `zerohop:worker`, there for all engines of the process. What a listener
   * throws is an uncaught exception; the engine and other listeners do not notice.
   *
   * @throws InferenceError `ERR_INVALID_ARG` for an unknown event, or a listener that is no function.
   */
  on<E extends keyof EngineEvents>(event: E, listener: (event: EngineEvents[E]) => void): this {
    this.#resources.events.on(event, listener)
    return this
  }

  /** As {@link on}, for the next one only. */
  once<E extends keyof EngineEvents>(event: E, listener: (event: EngineEvents[E]) => void): this {
    this.#resources.events.once(event, listener)
    return this
  }

  /** The end of {@link on}. */
  off<E extends keyof EngineEvents>(event: E, listener: (event: EngineEvents[E]) => void): this {
    this.#resources.events.off(event, listener)
    return this
  }

  /** Statistics of all models that have been opened, and of staging memory. */
  stats(): EngineStatistics {
    const opened = this.#models.all().filter(({ scheduler }) => scheduler !== null)
    return {
      models: Object.fromEntries(opened.map((model) => [model.name, this.#facades.get(model)!.stats()])),
      staging: this.#resources.staging?.stats() ?? null,
    }
  }

  /** What is in use and why: cores and workers, the native addon, staging memory, GPUs. */
  capabilities(): Capabilities {
    return this.#resources.devices.capabilities(this.#resources.staging?.stats() ?? null)
  }

  /**
   * Tries the execution providers, those that are built into ONNX Runtime and the plugins of this engine, one after the other: each
   * is loaded and runs a model of one operator in a process of its own, for 60 s at most. Loads go by what is found. What could not
   * be used before is tried again.
   *
   * @returns `capabilities().providers`, where `available` is known of all now.
   * @throws InferenceError `ERR_NATIVE_LOAD` when the native executor is asked for and cannot be had; `ERR_CLOSED`.
   */
  async probeProviders(): Promise<Capabilities['providers']> {
    this.#checkOpen()
    try {
      await this.#resources.devices.probeProviders()
    } catch (error) {
      this.#checkOpen() // destroyed meanwhile
      throw error
    }
    return this.capabilities().providers
  }

  /** Refuses new work, finishes what was accepted, releases everything. May be called more than once. */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeoutMs } = checkCloseOptions(options)
    this.#closed = true
    const drained = this.#end(false)
    if (timeoutMs === undefined) return drained
    const timer = setTimeout(() => void this.#end(true), timeoutMs)
    return drained.finally(() => clearTimeout(timer))
  }

  /**
   * Rejects all that was accepted with `ERR_CLOSED`, stops what runs, releases everything. May be called more than once. A
   * run that does not stop within a second is left to itself: its thread ends when it does.
   */
  async destroy(): Promise<void> {
    this.#closed = true
    return this.#end(true)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #unload(model: LoadedModel): Promise<void> {
    await this.#models.unload(model)
    this.#resources.staging?.trim()
  }

  #end(destroy: boolean): Promise<void> {
    notDropped(this)
    return this.#resources.close(destroy)
  }

  #checkOpen(): void {
    if (this.#closed) throw closedError()
  }
}

function closedError(): InferenceError {
  return new InferenceError('ERR_CLOSED', 'The engine is closed. Make a new InferenceEngine.')
}
