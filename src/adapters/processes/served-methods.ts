import { createHash } from 'node:crypto'
import type { InferenceEngine } from '../../engine.ts'
import type { ModelConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import type { Model } from '../../model.ts'
import { untilAborted } from '../../request/abort-watch.ts'
import { doAll, type Pieces } from '../../base/slices.ts'
import { toTextAndBytes } from './tagged-json.ts'

/** Bytes of a model that are hashed in one piece. */
const hashedBytes = 2 ** 19

interface SharedLoad {
  readonly config: string
  readonly loading: Promise<Model>
  readonly stop: AbortController
  /** Clients that wait for it. */
  waiting: number
  model: Model | null
}

/** What clients may ask of an engine beside inference. One for all clients, who share what each of them has loaded. */
export class ServedMethods {
  readonly #engine: InferenceEngine
  readonly #loads = new Map<string, SharedLoad>()

  constructor(engine: InferenceEngine) {
    this.#engine = engine
  }

  /**
   * Begins a call, in pieces.
   *
   * @param signal fires when its client has gone.
   * @returns what rejects with `ERR_INVALID_ARG` for what there is not, and with what the engine throws.
   */
  *begin(
    method: string,
    args: readonly unknown[],
    signal?: AbortSignal,
  ): Pieces<{ readonly result: Promise<unknown> }> {
    if (method !== 'load') return { result: this.#call(method, args) }
    const [name, config] = args as [string, ModelConfig | null]
    const text = yield* configText(config)
    return { result: this.#load(name, config, text, signal) }
  }

  /** The same at once. */
  call(method: string, args: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    return doAll(this.begin(method, args, signal)).result
  }

  async #call(method: string, args: readonly unknown[]): Promise<unknown> {
    const engine = this.#engine
    const [name, second] = args as [string, never]
    switch (method) {
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
        return engine
          .models()
          .map((model) => ({ name: model.name, state: model.state, versions: model.versions }))
      case 'capabilities':
        return engine.capabilities()
      default:
        throw new InferenceError('ERR_INVALID_ARG', `The serving process knows no method '${method}'.`)
    }
  }

  #forgetUnloaded(): void {
    for (const [key, { model }] of this.#loads)
      if (model !== null && model.state === 'closed') this.#loads.delete(key)
  }

  /** Several processes that begin alike load a model once: who asks for what is loaded already, or is being loaded, has that. */
  async #load(
    name: string,
    config: ModelConfig | null,
    text: string,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly version: number }> {
    signal?.throwIfAborted()
    const key = JSON.stringify([name, String(config?.version ?? 1)])
    const known = this.#loads.get(key)
    const isShared =
      config !== null &&
      known?.config === text &&
      (known.model === null ? !known.stop.signal.aborted : known.model.state === 'ready')
    return {
      version: (await this.#loaded(isShared ? known : this.#begin(key, name, config, text), signal)).version,
    }
  }

  #begin(key: string, name: string, config: ModelConfig | null, text: string): SharedLoad {
    const stop = new AbortController()
    const load: SharedLoad = {
      config: text,
      loading: this.#engine.load(name, config ?? undefined, { signal: stop.signal }),
      stop,
      waiting: 0,
      model: null,
    }
    this.#loads.set(key, load)
    load.loading.then(
      (model) => (load.model = model),
      () => this.#loads.get(key) === load && this.#loads.delete(key),
    )
    return load
  }

  /** A load for which no client waits any more is ended: what it holds is for nobody. */
  async #loaded(load: SharedLoad, signal: AbortSignal | undefined): Promise<Model> {
    load.waiting++
    try {
      return await untilAborted(load.loading, signal)
    } finally {
      if (--load.waiting === 0 && load.model === null) load.stop.abort(signal?.reason)
    }
  }
}

/** What tells one configuration from another: bytes of models by their hash, so that they are not kept. */
function* configText(config: ModelConfig | null): Pieces<string> {
  const { text, arrays } = toTextAndBytes(config)
  if (arrays.length === 0) return text
  const hash = createHash('sha256')
  for (const array of arrays) {
    for (let at = 0; at < array.byteLength; at += hashedBytes) {
      hash.update(array.subarray(at, at + hashedBytes))
      yield
    }
  }
  return text + hash.digest('hex')
}
