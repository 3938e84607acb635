import type { FunctionConfig } from '../options/function-config.ts'
import { checkLoadOptions, type LoadOptions } from '../options/load-options.ts'
import type { ModelConfig } from '../options/model-config.ts'
import { resolveFunctionConfig } from '../options/resolve-function-config.ts'
import type { PipelineConfig } from '../options/pipeline-config.ts'
import { resolveConfig } from '../options/resolve-model-config.ts'
import { resolvePipelineConfig } from '../options/resolve-pipeline-config.ts'
import type { EngineResources } from './engine-resources.ts'
import { invalidArgument } from '../errors.ts'
import type { Model } from '../model.ts'
import type { ModelFacades } from './model-facades.ts'
import type { ServableConfig } from './model-version.ts'

/** What is loaded under a name, of each kind. */
export class EngineLoads {
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
