import type { ArrivalRecording } from './observe/arrival-recording.ts'
import { outsideContext } from './base/async-context.ts'
import { EngineResources, noteResources, type EngineStatistics } from './engine/engine-resources.ts'
import { resolveEngineOptions, type EngineOptions } from './options/engine-options.ts'
import {
  checkCloseOptions,
  checkLoadOptions,
  checkUnloadOptions,
  readVersion,
  takeVersion,
  type CloseOptions,
  type EngineInferOptions,
  type LoadOptions,
  type RecordingOptions,
  type UnloadOptions,
} from './options/method-options.ts'
import type {
  AnySignature,
  LiteralConfig,
  ModelSignature,
  OutputName,
  SignatureOf,
  WantedOutputs,
} from './options/model-signature.ts'
import { resolveConfig, type ModelConfig } from './options/model-config.ts'
import type { SequenceConfig } from './options/sequence-config.ts'
import type { InputConfig, OutputConfig } from './options/tensor-config.ts'
import type { ReportedOutputs } from './options/infer-options.ts'
import { Model } from './model.ts'
import {
  engineClosed,
  type NamedModel,
  type ModelRegistry,
  type ModelVersion,
  type ServableConfig,
} from './engine/model-registry.ts'
import type { EngineEvents } from './observe/engine-events.ts'
import { resolveFunctionConfig, type FunctionConfig } from './options/function-config.ts'
import {
  resolvePipelineConfig,
  type PipelineConfig,
  type PipelineInputs,
  type PipelineOutputs,
  type PipelineSignature,
} from './options/pipeline-config.ts'
import type { FunctionInput, FunctionOutput, FunctionSignature } from './options/function-module.ts'
import type { Capabilities } from './run/devices.ts'
import {
  withReport,
  type RepositoryOptions,
  type RepositoryReport,
} from './features/triton-repository/repository-options.ts'
import { invalidArgument } from './errors.ts'
import type { ResolvedTraceSettings, TraceSettings } from './options/trace-options.ts'
import type { TraceStatistics } from './observe/trace-writer.ts'
import type { Traces } from './observe/traces.ts'
import { warn } from './base/warnings.ts'

/**
 * Loads ONNX models once and serves them to every caller in the process. An engine is cheap to create: threads and
 * memory are allocated with the first model. An idle engine does not keep the process alive; a request in flight does.
 *
 * Close the engine when you no longer need it. An engine that is dropped without `close()` is closed, with a warning,
 * once the garbage collector finds that neither it nor any of its models is reachable.
 */
export class InferenceEngine {
  /** Trace settings and statistics. Settings can change at any time. */
  readonly trace: EngineTrace
  readonly #resources: EngineResources
  readonly #models: ModelRegistry
  /** The `Model` of a name or a version. */
  readonly #facades = new WeakMap<NamedModel | ModelVersion, Model>()
  #closed = false

  /**
   * @throws InferenceError `ERR_INVALID_ARG` for an unknown or invalid option; `ERR_PLATFORM` where no model can run,
   * with advice.
   */
  constructor(options?: EngineOptions) {
    const resolved = resolveEngineOptions(options)
    this.#resources = outsideContext(() => new EngineResources(resolved))
    this.#models = this.#resources.models
    this.trace = new EngineTrace(this.#resources.traces, this.#models)
    noteResources(this, this.#resources)
    dropped.register(this, this.#resources, this)
  }

  /**
   * Loads a model. Resolves when every instance is open and warmed up.
   *
   * If that version of the name is already loaded, it is replaced without an interruption: the new model loads while
   * the old one serves (so both are in memory), new requests go to the new model once it is ready, and the old one
   * finishes the requests it accepted. Concurrent loads of one version run one after the other. A load that rejects
   * changes nothing: it releases what it opened, and the old model keeps serving.
   *
   * @param name the name of the model in this engine. A model of that name that failed after it was ready is released
   * before it is replaced.
   * @param config the configuration. Feeds and outputs are typed from its literal `inputs` and `outputs`, unless you
   * give a signature `M`, which is not checked. Without a configuration, all versions are loaded as the repositories
   * given to {@link loadRepository} have them now; versions from a repository that its policy no longer selects are
   * unloaded.
   * @returns the model of that name, which serves its newest version; with `config.version`, that version.
   * @throws InferenceError `ERR_MODEL_CONFIG`, `ERR_MODEL_NOT_FOUND` (no such file), `ERR_MODEL_LOAD`,
   * `ERR_NATIVE_LOAD` (onnxruntime-node, or native memory that was asked for, cannot be loaded), `ERR_INVALID_ARG` or
   * `ERR_CLOSED`; when `options.signal` fires, its reason. A load that failed because no worker thread could start can
   * be repeated once the cause is gone.
   */
  load<
    const I extends readonly InputConfig[],
    const O extends readonly OutputConfig[],
    const S extends SequenceConfig = {},
    const Left extends readonly string[] = [],
  >(
    name: string,
    config: LiteralConfig<I, O, S, Left>,
    options?: LoadOptions,
  ): Promise<Model<SignatureOf<I, O, S, Left>>>
  load<M extends ModelSignature = AnySignature>(
    name: string,
    config?: ModelConfig,
    options?: LoadOptions,
  ): Promise<Model<M>>
  async load(name: string, config?: ModelConfig, options: LoadOptions = {}): Promise<Model> {
    const { pluginNames, usedRepositories } = this.#resources
    return this.#load(name, options, async (signal) => {
      const repositories = config === undefined ? await usedRepositories : null
      return repositories?.isEmpty === false
        ? repositories.loadNamed(name, { signal })
        : this.#loaded(name, resolveConfig(name, config, pluginNames), signal)
    })
  }

  /**
   * Serves a JavaScript function as a model. The function is in a module and runs on threads of its own, with the same
   * queue, batches, deadlines, statistics and errors as a model. Feeds and outputs are typed from the declared inputs
   * and outputs.
   *
   * Resolves when every instance has loaded the module and run its `setup`. A name that is already loaded is replaced,
   * as by {@link load}.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG`, `ERR_MODEL_NOT_FOUND` (no such module), `ERR_MODEL_LOAD` (the module or
   * its `setup` threw, ended its thread or took too long), `ERR_INVALID_ARG` or `ERR_CLOSED`; when `options.signal`
   * fires, its reason.
   */
  async loadFunction<const I extends readonly FunctionInput[], const O extends readonly FunctionOutput[]>(
    name: string,
    config: FunctionConfig<I, O>,
    options: LoadOptions = {},
  ): Promise<Model<FunctionSignature<I, O>>> {
    return this.#load<FunctionSignature<I, O>>(name, options, (signal) =>
      this.#loaded(name, resolveFunctionConfig(name, config, this.#resources.workers), signal),
    )
  }

  /**
   * Serves a graph of models, functions and other pipelines as one model. Each step batches its own requests, steps
   * that do not depend on each other run concurrently, and tensors pass from step to step without the caller.
   *
   * The models must be loaded or loading. While the pipeline is loaded they can be replaced but not unloaded. A name
   * that is already loaded is replaced, as by {@link load}. Feeds and outputs are typed from the declared inputs and
   * outputs; a signature `M` is not checked.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` for a graph that is incomplete or does not fit the models, with the step
   * and its field; `ERR_MODEL_NOT_FOUND` and `ERR_MODEL_NOT_READY` for a step's model; `ERR_INVALID_ARG` or
   * `ERR_CLOSED`; when `options.signal` fires, its reason.
   */
  loadPipeline<const I extends PipelineInputs, const O extends PipelineOutputs>(
    name: string,
    config: PipelineConfig<I, O>,
    options?: LoadOptions,
  ): Promise<Model<PipelineSignature<I, O>>>
  loadPipeline<M extends ModelSignature>(
    name: string,
    config: PipelineConfig,
    options?: LoadOptions,
  ): Promise<Model<M>>
  async loadPipeline(name: string, config: PipelineConfig, options: LoadOptions = {}): Promise<Model> {
    return this.#load(name, options, (signal) =>
      this.#loaded(name, resolvePipelineConfig(name, config), signal),
    )
  }

  /** @param load resolves with what the returned `Model` is for. */
  #load<M extends ModelSignature>(
    name: string,
    options: LoadOptions,
    load: (signal: AbortSignal | undefined) => Promise<NamedModel | ModelVersion>,
  ): Promise<Model<M>> {
    this.#checkOpen()
    return outsideContext(async () => {
      if (typeof name !== 'string' || name === '') throw invalidArgument('name', 'a model name', name)
      const { signal } = checkLoadOptions(options)
      signal?.throwIfAborted()
      return this.#facade<M>(await load(signal))
    })
  }

  async #loaded(
    name: string,
    config: ServableConfig,
    signal: AbortSignal | undefined,
  ): Promise<NamedModel | ModelVersion> {
    const { named, version } = await this.#models.load(name, config, { signal })
    return config.version === undefined ? named : version
  }

  /** The `Model` of a name or a version. It keeps the engine reachable. The signature is not checked. */
  #facade<M extends ModelSignature>(target: NamedModel | ModelVersion): Model<M> {
    let model = this.#facades.get(target)
    if (model === undefined) {
      model = new Model(target, () => this.#unload(target))
      this.#facades.set(target, model)
    }
    return model as Model<ModelSignature> as Model<M>
  }

  /** @throws InferenceError `ERR_MODEL_NOT_FOUND`, or `ERR_INVALID_ARG` for an invalid version. */
  #find<M extends ModelSignature>(name: string, version?: number | string): Model<M> {
    const number = version === undefined ? undefined : readVersion(version, 'version', { model: name })
    return this.#facade(this.#models.findTarget(name, number))
  }

  async #unload(target: NamedModel | ModelVersion): Promise<void> {
    const { uses, host } = this.#resources
    const refusal = uses.refusal(target)
    if (refusal !== null) throw refusal
    await target.end(false)
    host.trim()
  }

  /**
   * Loads all models of a Triton model repository at once, each under the name of its folder: `<model>/config.pbtxt`
   * (or `config.ts`, `.js`, `.json`, or none) and `<model>/<version>/model.onnx`. Waits for all of them. If some fail,
   * it rejects and the others stay ready.
   *
   * With `mode: 'watch'` it does not reject for failed models, and watches the files until the engine is closed: new
   * models and versions are loaded, changed ones replaced, deleted ones unloaded; see {@link RepositoryEvent}.
   *
   * @param path the folder, as a path or a `file:` URL.
   * @returns an array of the models. Its properties `unsupported`, `missing` and `failed` list the models that are not
   * served, and why.
   * @throws InferenceError `ERR_MODEL_LOAD`, whose `cause` is an `AggregateError` with one `InferenceError` per model
   * that failed; `ERR_MODEL_NOT_FOUND` (no such folder), `ERR_INVALID_ARG` or `ERR_CLOSED`.
   */
  async loadRepository(
    path: string | URL,
    options: RepositoryOptions = {},
  ): Promise<Model[] & RepositoryReport> {
    this.#checkOpen()
    const models = await outsideContext(async () => (await this.#resources.repositories).load(path, options))
    this.#checkOpen()
    return withReport(
      models.map((named) => this.#facade(named)),
      models,
    )
  }

  /**
   * Calls {@link Model.infer} of the model of that name, or of `options.version` of it. The signature `M` is not
   * checked, as in {@link model}.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` for an unknown name or version, and everything {@link Model.infer}
   * rejects with.
   */
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options: EngineInferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<WantedOutputs<M, Name>>>
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options?: EngineInferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options?: EngineInferOptions<Name, boolean>,
  ): Promise<WantedOutputs<M, Name> | ReportedOutputs<WantedOutputs<M, Name>>>
  infer(
    name: string,
    feeds: AnySignature['inputs'],
    options?: EngineInferOptions<string, boolean>,
  ): Promise<unknown> {
    if (this.#closed) return Promise.reject(engineClosed())
    try {
      if (options === undefined) return this.#find(name).infer(feeds)
      const { version, rest } = takeVersion(options, name)
      return this.#find(name, version).infer(feeds, rest)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Returns the model of that name, or one version of it, in any state. The signature `M` is not checked.
   *
   * @param version the version. Default: the newest that is ready, at each request.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` for an unknown name or version; `ERR_INVALID_ARG`.
   */
  model<M extends ModelSignature = AnySignature>(name: string, version?: number | string): Model<M> {
    return this.#find(name, version)
  }

  /**
   * The models of this engine, one per name, including those that are loading, draining, or failed after they were
   * ready.
   */
  models(): Model[] {
    return this.#models.all().map((named) => this.#facade(named))
  }

  /**
   * Stops accepting requests for the model, finishes those accepted, and releases all versions, or the given one. Its
   * loads in progress reject with `ERR_CLOSED`.
   *
   * @throws InferenceError `ERR_MODEL_IN_USE` (a step of a pipeline), `ERR_MODEL_NOT_FOUND`, `ERR_INVALID_ARG` or
   * `ERR_CLOSED`.
   */
  async unload(name: string, options: UnloadOptions = {}): Promise<void> {
    this.#checkOpen()
    await this.#find(name, checkUnloadOptions(options).version).unload()
  }

  /**
   * Adds a listener for events of models, worker threads, repositories, traces or sequences. The listener is called
   * shortly after the event, in the asynchronous context (`AsyncLocalStorage`) in which it was added. The same events
   * of all engines of the process are published on the diagnostics channels `zerohop:model`, `zerohop:worker` and so
   * on. An exception from a listener is an uncaught exception; it does not affect the engine or other listeners.
   *
   * @throws InferenceError `ERR_INVALID_ARG` for an unknown event, or a listener that is not a function.
   */
  on<E extends keyof EngineEvents>(event: E, listener: (event: EngineEvents[E]) => void): this {
    this.#resources.events.on(event, listener)
    return this
  }

  /** As {@link on}, for the next event only. */
  once<E extends keyof EngineEvents>(event: E, listener: (event: EngineEvents[E]) => void): this {
    this.#resources.events.once(event, listener)
    return this
  }

  /** Removes a listener that {@link on} or {@link once} added. */
  off<E extends keyof EngineEvents>(event: E, listener: (event: EngineEvents[E]) => void): this {
    this.#resources.events.off(event, listener)
    return this
  }

  /**
   * Records the arrival of requests in a new file, until it is stopped or the engine closes; see {@link
   * ArrivalRecording}.
   */
  async recordArrivals(path: string | URL, options: RecordingOptions = {}): Promise<ArrivalRecording> {
    this.#checkOpen()
    return outsideContext(() => this.#resources.recordings.start(path, options))
  }

  /** Statistics of all models that have been opened, of staging memory, of workers and of the application's thread. */
  stats(): EngineStatistics {
    return this.#resources.stats()
  }

  /** Which cores, workers, native addon, staging memory, compiled-model cache and GPUs the engine uses, and why. */
  capabilities(): Capabilities {
    return this.#resources.capabilities()
  }

  /**
   * Probes all execution providers, one after the other: each is loaded and runs a model of one operator in a child
   * process, for at most 60 s. Later loads use the result. Providers that were unusable before are probed again.
   *
   * @returns `capabilities().providers`, with `available` known for every provider.
   * @throws InferenceError `ERR_NATIVE_LOAD` when `executor: 'native'` was given and is not available; `ERR_CLOSED`.
   */
  async probeProviders(): Promise<Capabilities['providers']> {
    this.#checkOpen()
    await outsideContext(() => this.#resources.probeProviders())
    this.#checkOpen() // the engine may have closed meanwhile, which ends the probes early
    return this.capabilities().providers
  }

  /** Refuses new work, finishes accepted requests, and releases everything. May be called more than once. */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeoutMs } = checkCloseOptions(options)
    const drained = this.#end(false)
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => void this.#end(true), timeoutMs)
    return drained.finally(() => clearTimeout(timer))
  }

  /**
   * Rejects accepted requests with `ERR_CLOSED`, stops runs, and releases everything. A run that does not stop within a
   * second is detached. May be called more than once.
   */
  async destroy(): Promise<void> {
    return this.#end(true)
  }

  /** As {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #end(destroy: boolean): Promise<void> {
    this.#closed = true
    dropped.unregister(this)
    return this.#resources.close(destroy)
  }

  #checkOpen(): void {
    if (this.#closed) throw engineClosed()
  }
}

let warned = false

/** Closes the resources of an engine when neither it nor any of its models is reachable. */
const dropped = new FinalizationRegistry<EngineResources>((resources) => {
  // No warning for an engine that never served: it holds nothing.
  if (resources.host.staging !== null && !warned) {
    warned = true
    const message =
      'An InferenceEngine was dropped without being closed. Its threads and memory are freed only now, when the garbage ' +
      'collector found it. Call engine.close(), or declare it with `await using`.'
    warn('ZEROHOP_ENGINE_DROPPED', message)
  }
  // Accepted requests are finished first. A failure has no caller to report to.
  resources.close(false).catch(() => {})
})

/** The traces of an engine at run time: `engine.trace`. */
export class EngineTrace {
  readonly #traces: Traces
  readonly #models: ModelRegistry

  /** @internal */
  constructor(traces: Traces, models: ModelRegistry) {
    this.#traces = traces
    this.#models = models
  }

  /**
   * Changes trace settings, from the next request on. Settings that are left out stay.
   *
   * @param model the model whose own settings change. Default: the engine's settings, which apply to every model
   * without its own.
   * @returns the settings now in effect.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_FOUND` (a name with neither a model nor settings) or
   * `ERR_CLOSED`; nothing has changed then.
   */
  update(settings: TraceSettings, model?: string): ResolvedTraceSettings {
    if (this.#models.closed) throw engineClosed()
    this.#traces.update(settings, this.#known(model))
    return this.settings(model)
  }

  /**
   * The settings in effect for a model or, without a name, for every model without its own. `count` is the number of
   * traces left.
   *
   * @throws InferenceError `ERR_INVALID_ARG` or `ERR_MODEL_NOT_FOUND`.
   */
  settings(model?: string): ResolvedTraceSettings {
    return this.#traces.settings(this.#known(model))
  }

  /** Numbers of traces started, written and lost. */
  stats(): TraceStatistics {
    return this.#traces.statistics()
  }

  /**
   * Resolves when all traces so far are written to their file, or lost. {@link InferenceEngine.close} also waits for
   * this.
   */
  flush(): Promise<void> {
    return this.#traces.flush()
  }

  #known(model: string | undefined): string | null {
    if (model === undefined) return null
    if (typeof model !== 'string' || model === '')
      throw invalidArgument('model', 'the name of a model', model)
    if (!this.#traces.has(model)) this.#models.find(model)
    return model
  }
}
