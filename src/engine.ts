import { closeWhenDropped, keepWith, notDropped } from './dropped-engines.ts'
import { EngineResources } from './engine-resources.ts'
import { LoadedModel } from './loaded-model.ts'
import { resolveEngineOptions, type EngineOptions } from './config/engine-options.ts'
import { InferenceError, invalidArgument } from './errors.ts'
import type { ModelConfig } from './config/model-config.ts'
import type { BatchReport, InferOptions } from './config/infer-options.ts'
import type { AnySignature, ModelSignature } from './config/model-signature.ts'
import { Model } from './model.ts'
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

/** How {@link InferenceEngine.close} closes. */
export interface CloseOptions {
  /** Longest wait for accepted requests, in milliseconds; then those still queued are rejected. Default: no limit. */
  timeoutMs?: number
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
  readonly #models: EngineResources['models']
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
   * @param name under which the model is known to this engine.
   * @throws InferenceError `ERR_MODEL_CONFIG`, `ERR_MODEL_NOT_FOUND` (no such file), `ERR_MODEL_LOAD`,
   * `ERR_NATIVE_LOAD` or `ERR_CLOSED`.
   */
  async load<M extends ModelSignature = AnySignature>(name: string, config: ModelConfig): Promise<Model<M>> {
    this.#checkOpen()
    if (typeof name !== 'string' || name === '') throw invalidArgument('name', 'a model name', name)
    const resolved = resolveConfig(name, config)
    const failed = this.#models.get(name)
    if (failed?.state === 'failed') await failed.close(true)
    this.#checkOpen()
    const present = this.#models.get(name)
    if (present !== undefined && present.state !== 'closed') {
      throw invalidArgument('name', 'a name that no loaded model has', name, {
        code: 'ERR_MODEL_CONFIG',
        model: name,
        hint: 'Unload that model first, or load this one under another name',
      })
    }
    const model = new LoadedModel(name, resolved, this.#resources.services)
    const facade = new Model(name, model)
    keepWith(facade, this)
    this.#facades.set(model, facade)
    this.#models.set(name, model)
    await model.load()
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

  /** As {@link Model.infer}; rejects with `ERR_MODEL_NOT_FOUND` when no model of that name was loaded. */
  infer(
    name: string,
    feeds: AnySignature['inputs'],
    options: InferOptions & { report: true },
  ): Promise<{ outputs: AnySignature['outputs']; report: BatchReport }>
  infer(name: string, feeds: AnySignature['inputs'], options?: InferOptions): Promise<AnySignature['outputs']>
  infer(name: string, feeds: AnySignature['inputs'], options?: InferOptions): Promise<unknown> {
    if (this.#closed) return Promise.reject(closedError())
    const model = this.#models.get(name)
    return model === undefined ? Promise.reject(this.#notFound(name)) : this.#facades.get(model)!.infer(feeds, options)
  }

  /** The models of this engine: loading, ready, draining and failed ones. */
  models(): Model[] {
    return [...this.#models.values()].map((model) => this.#facades.get(model)!)
  }

  /**
   * Takes no more requests for the model, finishes those accepted, and releases it.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` or `ERR_CLOSED`.
   */
  async unload(name: string): Promise<void> {
    this.#checkOpen()
    const model = this.#models.get(name)
    if (model === undefined) throw this.#notFound(name)
    await model.close(false)
    if (this.#models.get(name) === model) this.#models.delete(name)
    this.#resources.staging?.trim()
  }

  /** Statistics of all models that have been opened, and of staging memory. */
  stats(): EngineStatistics {
    const opened = [...this.#models.values()].filter(({ scheduler }) => scheduler !== null)
    return {
      models: Object.fromEntries(opened.map((model) => [model.name, this.#facades.get(model)!.stats()])),
      staging: this.#resources.staging?.stats() ?? null,
    }
  }

  /** What is in use and why: cores and workers, the native addon, staging memory, GPUs. */
  capabilities(): Capabilities {
    return this.#resources.devices.capabilities(this.#resources.staging?.stats() ?? null)
  }

  /** Refuses new work, finishes what was accepted, releases everything. May be called more than once. */
  async close(options: CloseOptions = {}): Promise<void> {
    if (typeof options !== 'object' || options === null) throw invalidArgument('options', 'an object', options)
    const { timeoutMs, ...others } = options
    for (const name in others) throw invalidArgument(`options.${name}`, 'a known option: timeoutMs', name)
    if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs >= 0 && timeoutMs < 2 ** 31)) {
      throw invalidArgument('options.timeoutMs', 'milliseconds, 0 or more and less than 2^31', timeoutMs)
    }
    this.#closed = true
    const drained = this.#end(false)
    if (timeoutMs === undefined) return drained
    const timer = setTimeout(() => void this.#end(true), timeoutMs)
    return drained.finally(() => clearTimeout(timer))
  }

  /** Rejects what waits with `ERR_CLOSED`, lets what runs finish, releases everything. May be called more than once. */
  async destroy(): Promise<void> {
    this.#closed = true
    return this.#end(true)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #end(dropWaiting: boolean): Promise<void> {
    notDropped(this)
    return this.#resources.close(dropWaiting)
  }

  #checkOpen(): void {
    if (this.#closed) throw closedError()
  }

  #notFound(name: unknown): InferenceError {
    const known = [...this.#models.keys()].map((key) => `'${key}'`).join(', ') || 'none'
    return invalidArgument('name', `a loaded model (loaded: ${known})`, name, { code: 'ERR_MODEL_NOT_FOUND' })
  }
}

function closedError(): InferenceError {
  return new InferenceError('ERR_CLOSED', 'The engine is closed. Make a new InferenceEngine.')
}
