import type { ArrivalRecording } from './observe/arrivals/arrival-recording.ts'
import { outsideContext } from './base/async-context.ts'
import { EngineResources, noteParts } from './engine/engine-resources.ts'
import { engineStatistics, type EngineStatistics } from './engine/engine-statistics.ts'
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
  NamedModel,
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
import { withReport } from './features/triton-repository/load-repository.ts'
import type { RepositoryOptions, RepositoryReport } from './features/triton-repository/repository-options.ts'
import { invalidArgument } from './errors.ts'
import type { ResolvedTraceSettings, TraceSettings } from './options/trace-options.ts'
import type { TraceStatistics } from './observe/trace-writer.ts'
import type { Traces } from './observe/traces.ts'

/**
 * Loads ONNX models once and serves every caller in the process from them. Cheap to make: threads and memory come with
 * the first model. An idle engine does not keep the process alive; a request in flight does.
 *
 * Close it when it is not needed any more. One that is dropped instead is closed, with a warning, when the garbage
 * collector finds that neither it nor any of its models can be reached.
 */
export class InferenceEngine {
  /** What it traces, which can be changed at any time. */
  readonly trace: EngineTrace
  readonly #resources: EngineResources
  readonly #models: ModelRegistry
  readonly #facades: ModelFacades
  readonly #loads: EngineLoads
  #closed = false

  /** @throws InferenceError `ERR_INVALID_ARG` for an unknown or impossible option; `ERR_PLATFORM` where no model can be run, with what to do. */
  constructor(options?: EngineOptions) {
    const resolved = resolveEngineOptions(options)
    this.#resources = outsideContext(() => new EngineResources(resolved))
    this.#models = this.#resources.models
    this.trace = new EngineTrace(this.#resources.traces, this.#models)
    this.#facades = new ModelFacades(this, this.#resources)
    this.#loads = new EngineLoads(this.#resources, this.#facades)
    noteParts(this, this.#resources)
    closeWhenDropped(this, this.#resources)
  }

  /**
   * Loads a model; resolves when every instance is open and warmed.
   *
   * Where that version of the name is loaded already it is replaced while it serves: the new model is loaded beside it (so
   * both are held), takes the requests from when it is ready on, and the old one answers what it had accepted. Several such
   * loads are done one after the other. A load that rejects leaves nothing: what it opened is released, and what served before serves on.
   *
   * @param name under which the model is known to this engine. What failed after it was ready is released before it is replaced.
   * @param config of the model. Feeds and outputs are typed from the `inputs` and `outputs` that it lists literally, unless a signature `M`
   * is given, which is taken on trust. Left out: all versions, as the repositories given to {@link loadRepository} have them now; those that
   * came from there before and are not asked for any more are unloaded.
   * @returns the model of that name, which serves its newest version; where `config` names one, that version.
   * @throws InferenceError `ERR_MODEL_CONFIG`, `ERR_MODEL_NOT_FOUND` (no such file), `ERR_MODEL_LOAD`,
   * `ERR_NATIVE_LOAD` (onnxruntime-node cannot be loaded, or native memory that was asked for), `ERR_INVALID_ARG` or
   * `ERR_CLOSED`; when `options.signal` fires, its reason. What failed for want of a worker thread can be loaded again once the cause is gone.
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
    this.#checkOpen()
    return outsideContext(() => this.#loads.model(name, config, options))
  }

  /**
   * Serves a function of the user's as a model: JavaScript in a module, run on threads of its own, with the queue, batches, deadlines,
   * statistics and errors of any model. Feeds and outputs are typed from what is declared.
   *
   * Resolves when every instance has loaded the module and is set up. A name that is loaded already is replaced, as by {@link load}.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG`, `ERR_MODEL_NOT_FOUND` (no such module), `ERR_MODEL_LOAD` (the module, or its `setup`,
   * has thrown, ended its thread or took too long), `ERR_INVALID_ARG` or `ERR_CLOSED`; when `options.signal` fires, its reason.
   */
  async loadFunction<const I extends readonly FunctionInput[], const O extends readonly FunctionOutput[]>(
    name: string,
    config: FunctionConfig<I, O>,
    options: LoadOptions = {},
  ): Promise<Model<FunctionSignature<I, O>>> {
    this.#checkOpen()
    return (await outsideContext(() => this.#loads.function(name, config, options))) as unknown as Model<
      FunctionSignature<I, O>
    >
  }

  /**
   * Serves a graph of models, functions and other pipelines as one model: each step joins requests for itself, steps that do not wait
   * for each other run at once, and what goes from one to the next goes through nobody's hands.
   *
   * The models have to be loaded, or being loaded; while the pipeline is, they can be replaced, and not be unloaded. A name that is loaded
   * already is replaced, as by {@link load}. Feeds and outputs are typed from what is declared of them; a signature `M` is taken on trust.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` for a graph that is not whole, or does not fit the models: with the step and its field;
   * `ERR_MODEL_NOT_FOUND` and `ERR_MODEL_NOT_READY` for a step's model, `ERR_INVALID_ARG` or `ERR_CLOSED`; when `options.signal` fires, its reason.
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
    this.#checkOpen()
    return outsideContext(() => this.#loads.pipeline(name, config, options))
  }

  /**
   * Loads the models of a Triton model repository, `<model>/config.pbtxt` (or `config.ts`, `.js`, `.json`, or none) and `<model>/<version>/model.onnx`,
   * all at once, each under the name of its folder. Waits for all of them; when some failed it rejects, and others stay ready.
   *
   * With `mode: 'watch'` it does not reject for them, and goes on looking at the files until the engine is closed: models and
   * versions that come are loaded, those that change are replaced, those that go are unloaded; see {@link RepositoryEvent}.
   *
   * @param path of its folder, or a `file:` URL.
   * @returns the models, as an array that has `unsupported`, `missing` and `failed` beside: those that are not served, and why.
   * @throws InferenceError `ERR_MODEL_LOAD`, whose `cause` is an `AggregateError` with one `InferenceError` per model that
   * failed; `ERR_MODEL_NOT_FOUND` (no such folder), `ERR_INVALID_ARG` or `ERR_CLOSED`.
   */
  async loadRepository(
    path: string | URL,
    options: RepositoryOptions = {},
  ): Promise<Model[] & RepositoryReport> {
    this.#checkOpen()
    const models = await outsideContext(() => this.#resources.repositories.load(path, options))
    this.#checkOpen()
    return withReport(
      models.map((named) => this.#facades.of(named)),
      models,
    )
  }

  /**
   * As {@link Model.infer} of the model of that name, or of the version that is given; the signature `M` is taken on trust, as by {@link model}.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when no model has that name, or it has no such version, and what {@link Model.infer} rejects with.
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
      if (options === undefined) return this.#facades.find(name).infer(feeds)
      const { version, rest } = takeVersion(options, name)
      return this.#facades.find(name, version).infer(feeds, rest)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * The model of that name, in whatever state it is, or one version of it. The signature `M` is taken on trust: nothing is
   * checked.
   *
   * @param version left out: whichever is the newest that is ready, now and later.
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when no model has that name, or it has no such version; `ERR_INVALID_ARG`.
   */
  model<M extends ModelSignature = AnySignature>(name: string, version?: number | string): Model<M> {
    return this.#facades.find(name, version) as unknown as Model<M>
  }

  /** The models of this engine, one for each name, also those that load, drain, or failed after they were ready. */
  models(): Model[] {
    return this.#models.all().map((named) => this.#facades.of(named))
  }

  /**
   * Takes no more requests for the model, finishes those accepted, and releases it, with all its versions or the one that is
   * given; loads of it that are under way are rejected with `ERR_CLOSED`.
   *
   * @throws InferenceError `ERR_MODEL_IN_USE` (a step of a pipeline), `ERR_MODEL_NOT_FOUND`, `ERR_INVALID_ARG` or `ERR_CLOSED`.
   */
  async unload(name: string, options: UnloadOptions = {}): Promise<void> {
    this.#checkOpen()
    await this.#facades.find(name, checkUnloadOptions(options).version).unload()
  }

  /**
   * Calls `listener` with what happens to models, worker threads, repositories, traces or sequences, soon after it has; the same is
   * published on the diagnostics channels `zerohop:model`, `zerohop:worker` and so on, there for all engines of the process. It runs in the
   * asynchronous context (`AsyncLocalStorage`) that it is added in. What a listener
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

  /** Records in a new file what requests come, until it is stopped or the engine closed; see {@link ArrivalRecording}. */
  async recordArrivals(path: string | URL, options: RecordingOptions = {}): Promise<ArrivalRecording> {
    this.#checkOpen()
    return outsideContext(() => this.#resources.recordings.start(path, options))
  }

  /** Statistics of all models that have been opened, of staging memory, of workers and of the application's thread. */
  stats(): EngineStatistics {
    return engineStatistics(this.#resources, (version) => this.#facades.of(version).stats())
  }

  /** What is in use and why: cores and workers, the native addon, staging memory, the cache of compiled models, GPUs. */
  capabilities(): Capabilities {
    return this.#resources.capabilities()
  }

  /**
   * Tries all execution providers, one after the other: each is loaded and runs a model of one operator in a process of its own, for
   * 60 s at most. Loads go by what is found; what could not be used before is tried again.
   *
   * @returns `capabilities().providers`, where `available` is known of all now.
   * @throws InferenceError `ERR_NATIVE_LOAD` when the native executor is asked for and cannot be had; `ERR_CLOSED`.
   */
  async probeProviders(): Promise<Capabilities['providers']> {
    this.#checkOpen()
    await outsideContext(() => this.#resources.probeProviders())
    this.#checkOpen() // else it was closed, and nothing waited for
    return this.capabilities().providers
  }

  /** Refuses new work, finishes what was accepted, releases everything. May be called more than once. */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeoutMs } = checkCloseOptions(options)
    const drained = this.#end(false)
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => void this.#end(true), timeoutMs)
    return drained.finally(() => clearTimeout(timer))
  }

  /** Rejects all that was accepted with `ERR_CLOSED`, stops what runs, releases everything. May be called more than once. A run that does not stop within a second is left to itself. */
  async destroy(): Promise<void> {
    return this.#end(true)
  }

  /** As {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #end(destroy: boolean): Promise<void> {
    this.#closed = true
    notDropped(this)
    return this.#resources.close(destroy)
  }

  #checkOpen(): void {
    if (this.#closed) throw engineClosed()
  }
}

/** What is loaded under a name, of each kind. */
class EngineLoads {
  readonly #resources: EngineResources
  readonly #facades: ModelFacades

  constructor(resources: EngineResources, facades: ModelFacades) {
    this.#resources = resources
    this.#facades = facades
  }

  /** See {@link InferenceEngine.load}. */
  async model(name: string, config: ModelConfig | undefined, options: LoadOptions): Promise<Model> {
    const { signal } = checked(name, options)
    const { pluginNames, repositories } = this.#resources
    if (config === undefined && !repositories.isEmpty)
      return this.#facades.of(await repositories.loadNamed(name, { signal }))
    return this.#load(name, resolveConfig(name, config, pluginNames), signal)
  }

  /** See {@link InferenceEngine.loadFunction}. */
  async function(name: string, config: FunctionConfig, options: LoadOptions): Promise<Model> {
    const { signal } = checked(name, options)
    return this.#load(name, resolveFunctionConfig(name, config, this.#resources.workers), signal)
  }

  /** See {@link InferenceEngine.loadPipeline}. */
  async pipeline(name: string, config: PipelineConfig, options: LoadOptions): Promise<Model> {
    const { signal } = checked(name, options)
    return this.#load(name, resolvePipelineConfig(name, config), signal)
  }

  async #load(name: string, config: ServableConfig, signal: AbortSignal | undefined): Promise<Model> {
    const { named, version } = await this.#resources.models.load(name, config, { signal })
    return this.#facades.of(config.version === undefined ? named : version)
  }
}

function checked(name: unknown, options: LoadOptions): LoadOptions {
  if (typeof name !== 'string' || name === '') throw invalidArgument('name', 'a model name', name)
  const { signal } = checkLoadOptions(options)
  signal?.throwIfAborted()
  return { ...(signal && { signal }) }
}

/** What callers hold of an engine's models. In the engine's hands only, see {@link EngineResources}. */
class ModelFacades {
  readonly #engine: object
  readonly #resources: EngineResources
  readonly #models = new WeakMap<NamedModel | ModelVersion, Model>()

  constructor(engine: object, resources: EngineResources) {
    this.#engine = engine
    this.#resources = resources
  }

  /** That of a name, or of a version. */
  of(target: NamedModel | ModelVersion): Model {
    let model = this.#models.get(target)
    if (model === undefined) {
      model = new Model(target, () => this.#unload(target))
      keepWith(model, this.#engine)
      this.#models.set(target, model)
    }
    return model
  }

  /** @throws InferenceError `ERR_MODEL_NOT_FOUND`, or `ERR_INVALID_ARG` for what is no version. */
  find(name: string, version?: number | string): Model {
    const { models } = this.#resources
    return this.of(
      version === undefined
        ? models.find(name)
        : models.findVersion(name, readVersion(version, 'version', { model: name })),
    )
  }

  async #unload(target: NamedModel | ModelVersion): Promise<void> {
    const { uses } = this.#resources
    const refusal =
      target instanceof NamedModel ? uses.refusal(target.name, undefined, true) : uses.refusalOf(target)
    if (refusal !== null) throw refusal
    await target.end(false)
    this.#resources.staging?.trim()
  }
}

const engineOf = new WeakMap<Model, object>()
let warned = false

const collected = new FinalizationRegistry<EngineResources>((resources) => {
  // An engine that never served has nothing that would be missed.
  if (resources.staging !== null && !warned) {
    warned = true
    const message =
      'An InferenceEngine was dropped without being closed. Its threads and memory are given back now; until the garbage ' +
      'collector found it they were held for nothing. Call engine.close(), or declare it with `await using`.'
    process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_ENGINE_DROPPED' })
  }
  // What was accepted is finished first. Nobody is left to be told of a failure.
  resources.close(false).catch(() => {})
})

/** Has `resources` closed when neither the engine nor any of its models can be reached any more. */
function closeWhenDropped(engine: object, resources: EngineResources): void {
  collected.register(engine, resources, engine)
}

/** Ends {@link closeWhenDropped}: the engine is being closed. */
function notDropped(engine: object): void {
  collected.unregister(engine)
}

/** Who holds a model uses its engine. */
function keepWith(model: Model, engine: object): void {
  engineOf.set(model, engine)
}

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
   * Changes settings, from the next request on. What is left out stays.
   *
   * @param model its name, for settings of its own instead of the engine's. Left out: those of the engine, for all models that have none.
   * @returns the settings that hold now.
   * @throws InferenceError `ERR_INVALID_ARG`, `ERR_MODEL_NOT_FOUND` (no model has that name, nor settings of its own) or `ERR_CLOSED`; nothing has changed then.
   */
  update(settings: TraceSettings, model?: string): ResolvedTraceSettings {
    if (this.#models.closed) throw engineClosed()
    this.#traces.update(settings, this.#known(model))
    return this.settings(model)
  }

  /**
   * The settings that hold for a model, or with no name for all that have none of their own; `count` is what is left of it.
   *
   * @throws InferenceError `ERR_INVALID_ARG` or `ERR_MODEL_NOT_FOUND`.
   */
  settings(model?: string): ResolvedTraceSettings {
    return this.#traces.settings(this.#known(model))
  }

  /** How many traces were begun, written and lost. */
  stats(): TraceStatistics {
    return this.#traces.statistics()
  }

  /** Resolves when what has been traced so far is in its file, or lost. {@link InferenceEngine.close} does so, too. */
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
