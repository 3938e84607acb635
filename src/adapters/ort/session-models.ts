import { basename, resolve } from 'node:path'
import { fileStateOf } from '../../models/compiled-models/model-content.ts'
import type { ModelOptions } from '../../options/model-config.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import type { InferenceEngine } from '../../engine.ts'
import { filePath } from '../../base/files.ts'
import type { Model } from '../../model.ts'

/** A model in the hands of one session. */
export interface HeldModel {
  readonly model: Model
  /** Gives it back; it is unloaded when nobody holds it any more. To be called once. */
  release(): Promise<void>
}

interface Shared {
  readonly loading: Promise<Model>
  holders: number
}

const ofEngine = new WeakMap<InferenceEngine, SessionModels>()

/** The models behind the sessions of one engine: those that are created of the same file with the same options have one. */
export class SessionModels {
  readonly #engine: WeakRef<InferenceEngine>
  readonly #shared = new Map<string, Shared>()
  #loads = 0

  private constructor(engine: InferenceEngine) {
    this.#engine = new WeakRef(engine)
  }

  static of(engine: InferenceEngine): SessionModels {
    let models = ofEngine.get(engine)
    if (models === undefined) ofEngine.set(engine, (models = new SessionModels(engine)))
    return models
  }

  /** Loads a model, or takes part in one. Rejects as {@link InferenceEngine.load} does. */
  async hold(source: string | Uint8Array, options: ModelOptions): Promise<HeldModel> {
    const key = keyOf(source, options)
    let shared = key === null ? undefined : this.#shared.get(key)
    if (shared === undefined) {
      shared = { loading: this.#load(source, options), holders: 0 }
      if (key !== null) this.#shared.set(key, shared)
    }
    const own = shared
    const leave = (): boolean => {
      if (--own.holders > 0) return false
      if (key !== null && this.#shared.get(key) === own) this.#shared.delete(key)
      return true
    }
    own.holders++
    try {
      const model = await own.loading
      if (model.state === 'ready')
        return { model, release: async () => (leave() ? model.unload() : undefined) }
    } catch (error) {
      leave()
      throw error
    }
    // It has failed since, or was unloaded by somebody else: whoever comes now gets another one.
    if (key !== null && this.#shared.get(key) === own) this.#shared.delete(key)
    leave()
    return this.hold(source, options)
  }

  #load(source: string | Uint8Array, options: ModelOptions): Promise<Model> {
    const where = typeof source === 'string' ? { path: source } : { bytes: source }
    const name = `${typeof source === 'string' ? basename(source) : 'model'}#${++this.#loads}`
    return this.#engine.deref()!.load(name, { ...options, ...where })
  }
}

/** Equal for sessions that may have one model: of one state of one file. `null` for bytes, and where bytes, or what cannot be compared, are among the options. */
function keyOf(source: string | Uint8Array, options: ModelOptions): string | null {
  const path = typeof source === 'string' ? filePath(source) : null
  if (path === null || options.sessionOptions?.externalData !== undefined) return null
  try {
    return JSON.stringify([resolve(path), fileStateOf(resolve(path)), options], sorted)
  } catch {
    return null // no JSON can be made of them: the load says what is wrong
  }
}

const identities = new WeakMap<object, number>()
let known = 0

/** Options in another order are the same options; what is no plain data (functions, tensors) is the same only where it is the same object. */
function sorted(_: string, value: unknown): unknown {
  if (isPlainObject(value))
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || Array.isArray(value))
    return value
  if (!identities.has(value)) identities.set(value, ++known)
  return `object ${identities.get(value)}`
}
