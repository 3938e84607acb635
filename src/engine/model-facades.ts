import { readVersion } from '../options/version-options.ts'
import { keepWith } from './dropped-engines.ts'
import type { EngineResources } from './engine-resources.ts'
import { Model } from '../model.ts'
import type { ModelVersion } from './model-version.ts'
import { NamedModel } from './named-model.ts'

/** What callers hold of an engine's models. In the engine's hands only, see {@link EngineResources}. */
export class ModelFacades {
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
