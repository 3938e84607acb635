import { createHash } from 'node:crypto'
import type { InferenceEngine } from '../../engine.ts'
import type { ModelConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import type { Model } from '../../model.ts'
import { untilAborted } from '../../request/abort-watch.ts'
import { doAll, type Pieces } from '../../base/slices.ts'
import { toTextAndBytes } from './tagged-json.ts'

/** Bytes of a model hashed in one piece. */
const hashedBytes = 2 ** 19

interface SharedLoad {
  readonly config: string
  readonly loading: Promise<Model>
  readonly stop: AbortController
  /** Clients waiting for the load. */
  waiting: number
  model: Model | null
}

/**
 * The methods of an engine, other than inference, that clients may call. One instance serves all clients, so
 * that they share loaded models.
 */
export class ServedMethods {
  readonly #engine: InferenceEngine
  readonly #loads = new Map<string, SharedLoad>()

  constructor(engine: InferenceEngine) {
    this.#engine = engine
  }

  /**
   * Begins a call, in pieces.
   *
   * @param signal fires when the client has gone.
   * @returns a promise that rejects with `ERR_INVALID_ARG` for an unknown method, and with the engine's
   * errors.
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

  /** Like {@link begin}, at once. */
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

  /**
   * Processes that start with the same configuration load a model once: later clients share the loaded or
   * loading model.
   */
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

  /** A load without waiting clients is aborted. */
  async #loaded(load: SharedLoad, signal: AbortSignal | undefined): Promise<Model> {
    load.waiting++
    try {
      return await untilAborted(load.loading, signal)
    } finally {
      if (--load.waiting === 0 && load.model === null) load.stop.abort(signal?.reason)
    }
  }
}

/** A text that identifies a configuration. It has hashes of model bytes, so that the bytes are not kept. */
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
