import { basename, resolve } from 'node:path'
import type {
  InferenceSession,
  InferenceSessionHandler,
  OnnxValue,
  SessionHandler,
  Tensor,
} from 'onnxruntime-common'
import { filePath } from '../../base/files.ts'
import type { InferenceEngine } from '../../engine.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { Model } from '../../model.ts'
import { fileStateOf } from '../../models/compiled-models/model-content.ts'
import type { ModelOptions } from '../../options/model-config.ts'
import type { FeedValue } from '../../options/model-signature.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import type { ValueMetadata } from '../../tensor/metadata.ts'
import { isElementType, isPacked, isRawType } from '../../tensor/tensor.ts'
import { checkRunOptions, warnIgnored } from './ort-session-options.ts'

/** Sessions that were dropped without `release()`. */
const dropped = new FinalizationRegistry<HeldModel>((held) => {
  held.release().catch(() => {}) // nobody is left to be told
})

/** What an `InferenceSession` of onnxruntime-common does its work by: a model of an engine. */
export class EngineSession implements InferenceSessionHandler {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  readonly inputMetadata: readonly InferenceSession.ValueMetadata[]
  readonly outputMetadata: readonly InferenceSession.ValueMetadata[]
  #held: HeldModel | null

  /** @throws InferenceError `ERR_MODEL_LOAD` for elements that no tensor of onnxruntime-common has. */
  constructor(held: HeldModel) {
    const { name, metadata } = held.model
    this.inputMetadata = sessionMetadata(name, metadata.inputs)
    this.outputMetadata = sessionMetadata(name, metadata.outputs)
    this.inputNames = this.inputMetadata.map((input) => input.name)
    this.outputNames = this.outputMetadata.map((output) => output.name)
    this.#held = held
    dropped.register(this, held, this)
  }

  async run(
    feeds: SessionHandler.FeedsType,
    fetches: SessionHandler.FetchesType,
    options: InferenceSession.RunOptions,
  ): Promise<SessionHandler.ReturnType> {
    if (this.#held === null) throw new Error('Session already disposed.')
    refuseTermination(options)
    checkRunOptions(options)
    warnOfIgnored(options)
    const { model } = this.#held
    const outputs = Object.keys(fetches)
    this.#checkTensors(outputs)
    const answers = await model.infer(
      this.#ownFeeds(feeds),
      outputs.length === this.outputNames.length ? undefined : { outputs },
    )
    return intoGiven(model.name, answers as Record<string, OnnxValue>, fetches)
  }

  /** What runs is finished first. Once it is released nothing happens any more. */
  async dispose(): Promise<void> {
    const held = this.#held
    this.#held = null
    dropped.unregister(this)
    await held?.release()
  }

  /** Does nothing, as that of onnxruntime-node: the session option `enableProfiling` begins it. */
  startProfiling(): void {}

  endProfiling(): void {
    warnIgnored(
      'endProfiling()',
      "the profile of a session with 'enableProfiling' is written when it is released.",
    )
  }

  /** More than the model takes may be given, as to onnxruntime-node. */
  #ownFeeds(feeds: SessionHandler.FeedsType): Record<string, FeedValue> {
    return Object.fromEntries(this.inputNames.map((name) => [name, feeds[name] as FeedValue]))
  }

  #checkTensors(outputs: readonly string[]): void {
    const other = this.outputMetadata.find(({ name, isTensor }) => !isTensor && outputs.includes(name))
    if (other === undefined) return
    const message = `output '${other.name}' is no tensor, which a session cannot answer with. Name the outputs that are wanted (run(feeds, ['...'])), or use Model.infer().`
    throw new InferenceError('ERR_INVALID_ARG', message, { name: other.name })
  }
}

function refuseTermination(options: InferenceSession.RunOptions): void {
  if (options.terminate === true)
    throw new InferenceError(
      'ERR_INVALID_ARG',
      "run option 'terminate': expected to be left out, received true. Model.infer() takes a signal by which runs are stopped.",
      { name: 'terminate' },
    )
}

function warnOfIgnored(options: InferenceSession.RunOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && name !== 'terminate')
      warnIgnored(
        `The run option '${name}'`,
        'requests share runs. Options of all runs of a model are its runOptions (createOrt).',
      )
  }
}

/**
 * Inputs or outputs of a model as a session describes them.
 *
 * @throws InferenceError `ERR_MODEL_LOAD` for elements that no tensor of onnxruntime-common has.
 */
function sessionMetadata(model: string, values: readonly ValueMetadata[]): InferenceSession.ValueMetadata[] {
  return values.map(({ name, type, shape }) => {
    if (!isElementType(type)) return { name, isTensor: false }
    if (isRawType(type) && !isPacked(type)) {
      const hint = 'Load the model by InferenceEngine.load(), whose tensors have it'
      throw invalidArgument(`'${name}'`, 'elements of a type that a Tensor can have', type, {
        code: 'ERR_MODEL_LOAD',
        model,
        hint,
      })
    }
    return { name, isTensor: true, type: type as Tensor.Type, shape: [...shape] }
  })
}

/**
 * Puts answers into the tensors that a caller has made for them (`run(feeds, { y: tensor })`), and answers with those; outputs for
 * which none was made stay as they are.
 *
 * @param fetches by output: the tensor, or `null` for none.
 * @throws InferenceError `ERR_INVALID_ARG` for a tensor of another type or shape.
 */
function intoGiven(
  model: string,
  answers: Readonly<Record<string, OnnxValue>>,
  fetches: SessionHandler.FetchesType,
): SessionHandler.ReturnType {
  return Object.fromEntries(
    Object.entries(answers).map(([name, answer]) => [name, fill(model, name, answer, fetches[name] ?? null)]),
  )
}

function fill(model: string, name: string, answer: Tensor, given: OnnxValue | null): Tensor {
  if (given === null) return answer
  const shown = ({ type, dims }: Tensor) => `${type}[${dims.join(', ')}]`
  if (shown(given) !== shown(answer))
    throw invalidArgument(`fetches.${name}`, `a tensor ${shown(answer)}`, shown(given), { model })
  const { data } = given
  if (Array.isArray(data)) for (const [index, text] of (answer.data as string[]).entries()) data[index] = text
  else (data as Float32Array).set(answer.data as Float32Array)
  return given
}

/** A model in the hands of one session. */
interface HeldModel {
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
