import type { InferenceEngine } from '../engine.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { InferenceError } from '../errors.ts'
import type { Model } from '../model.ts'
import { toText } from './tagged-json.ts'

interface SharedLoad {
  readonly config: string
  readonly loading: Promise<Model>
  model: Model | null
}

/** What clients may ask of an engine beside inference. One for all clients, who share what each of them has loaded. */
export class ServedMethods {
  readonly #engine: InferenceEngine
  readonly #loads = new Map<string, SharedLoad>()

  constructor(engine: InferenceEngine) {
    this.#engine = engine
  }

  /** @throws InferenceError `ERR_INVALID_ARG` for what there is not, and what the engine throws. */
  async call(method: string, args: readonly unknown[]): Promise<unknown> {
    const engine = this.#engine
    const [name, second] = args as [string, never]
    switch (method) {
      case 'load':
        return this.#load(name, second)
      case 'unload':
        await engine.unload(name, second ?? {})
        return this.#forgetUnloaded()
      case 'alive':
        return null
      case 'stats':
        return engine.stats()
      case 'modelStats':
        return engine.model(name, second ?? undefined).stats()
      case 'metadata':
        return engine.model(name, second ?? undefined).metadata
      case 'classes': {
        const { metadata, labels } = engine.model(name, second ?? undefined)
        return { metadata, labels: [...labels] }
      }
      case 'models':
        return engine.models().map((model) => ({ name: model.name, state: model.state, versions: model.versions }))
      case 'capabilities':
        return engine.capabilities()
      default:
        throw new InferenceError('ERR_INVALID_ARG', `The serving process knows no method '${method}'.`)
    }
  }

  #forgetUnloaded(): void {
    for (const [key, { model }] of this.#loads) if (model !== null && model.state === 'closed') this.#loads.delete(key)
  }

  /** Several processes that begin alike load a model once: who asks for what is loaded already, or is being loaded, has that. */
  async #load(name: string, config: ModelConfig | null): Promise<{ readonly version: number }> {
    const text = toText(config)
    const key = JSON.stringify([name, String(config?.version ?? 1)])
    const known = this.#loads.get(key)
    if (config !== null && known?.config === text && (known.model === null || known.model.state === 'ready')) return { version: (await known.loading).version }
    const loading = this.#engine.load(name, config ?? undefined)
    const load: SharedLoad = { config: text, loading, model: null }
    this.#loads.set(key, load)
    try {
      load.model = await loading
    } catch (error) {
      if (this.#loads.get(key) === load) this.#loads.delete(key)
      throw error
    }
    return { version: load.model.version }
  }
}
