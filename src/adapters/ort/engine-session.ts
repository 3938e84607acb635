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
import { isElementType, isPacked, isRawType, toStorage } from '../../tensor/tensor.ts'
import { checkRunOptions, errorOf, isLocation, warnIgnored } from './ort-session-options.ts'

/** Releases the models of sessions that were garbage-collected without `release()`. */
const dropped = new FinalizationRegistry<HeldModel>((held) => {
  held.release().catch(() => {}) // no caller is left to receive the error
})

/** The handler behind an `InferenceSession` of onnxruntime-common: a model of an engine. */
export class EngineSession implements InferenceSessionHandler {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  readonly inputMetadata: readonly InferenceSession.ValueMetadata[]
  readonly outputMetadata: readonly InferenceSession.ValueMetadata[]
  #held: HeldModel | null

  /** @throws InferenceError `ERR_MODEL_LOAD` for element types that onnxruntime-common has no tensors for. */
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
    const { model } = this.#holding()
    warnOfIgnored(checkRunOptions(options))
    const outputs = Object.keys(fetches)
    checkFetches(fetches)
    this.#checkTensors(outputs)
    const own = this.#ownFeeds(feeds)
    const answers = await model
      .infer(own, outputs.length === this.outputNames.length ? undefined : { outputs })
      .catch((error: unknown) => {
        throw refusal(error, own)
      })
    return intoGiven(model.name, answers as Record<string, OnnxValue>, fetches)
  }

  /** Waits for runs in flight, then releases the model. A second call fails, as in onnxruntime-node. */
  async dispose(): Promise<void> {
    const held = this.#holding()
    this.#held = null
    dropped.unregister(this)
    await held.release()
  }

  /** Does nothing, as in onnxruntime-node: the session option `enableProfiling` starts profiling. */
  startProfiling(): void {}

  endProfiling(): void {
    this.#holding()
    warnIgnored(
      'endProfiling()',
      "the profile of a session with 'enableProfiling' is written when it is released.",
    )
  }

  /** @throws Error once the session is released. */
  #holding(): HeldModel {
    if (this.#held === null) throw new Error('Session already disposed.')
    return this.#held
  }

  /** The feeds that the model takes. Extra feeds are allowed, as in onnxruntime-node. */
  #ownFeeds(feeds: SessionHandler.FeedsType): Record<string, FeedValue> {
    return Object.fromEntries(this.inputNames.map((name) => [name, feeds[name] as FeedValue]))
  }

  #checkTensors(outputs: readonly string[]): void {
    const other = this.outputMetadata.find(({ name, isTensor }) => !isTensor && outputs.includes(name))
    if (other === undefined) return
    const message = `output '${other.name}' is not a tensor, so a session cannot return it. Name the outputs you need (run(feeds, ['...'])), or use Model.infer().`
    throw new InferenceError('ERR_INVALID_ARG', message, { name: other.name })
  }
}

/** The error of a refused run; for feeds that are no tensors, of the class that onnxruntime-node throws. */
function refusal(error: unknown, feeds: Readonly<Record<string, unknown>>): unknown {
  if (!(error instanceof InferenceError) || error.code !== 'ERR_INVALID_ARG') return error
  const Kind = Object.values(feeds)
    .map(errorClass)
    .find((each) => each !== null)
  return Kind === undefined ? error : errorOf(Kind, error)
}

/** The longest dimension that onnxruntime-node accepts. */
const longestDimension = 0xffff_ffff

/** The error class for a feed, by checks in the order of onnxruntime-node's; `null` for a tensor, which may still not fit. */
function errorClass(feed: unknown): TypeErrorConstructor | RangeErrorConstructor | null {
  if (typeof feed !== 'object' || feed === null) return TypeError
  const { type, dims, location = 'cpu' } = feed as Partial<Tensor>
  if (!Array.isArray(dims) || [...dims].some((length) => typeof length !== 'number')) return TypeError
  if (dims.some((length) => !Number.isInteger(length) || length < 0 || length > longestDimension))
    return RangeError
  if (location !== 'cpu') return locationError(location)
  if (!isElementType(type) || isRawType(type)) return TypeError
  const { data } = feed as { data?: unknown }
  if (type !== 'string') return toStorage(type, data) === null ? TypeError : null
  return Array.isArray(data) && [...data].every((each) => typeof each === 'string') ? null : TypeError
}

function locationError(location: unknown): TypeErrorConstructor | RangeErrorConstructor {
  return typeof location !== 'string' || isLocation(location) ? TypeError : RangeError // 'none': disposed
}

/** @throws TypeError, RangeError for a tensor whose memory cannot be written. */
function checkFetches(fetches: SessionHandler.FetchesType): void {
  for (const [name, given] of Object.entries(fetches)) {
    if (given === null || given.location === 'cpu' || given.location === 'cpu-pinned') continue
    const error = invalidArgument(`fetches.${name}`, 'a tensor whose data is on the CPU', given.location)
    throw errorOf(locationError(given.location), error)
  }
}

function warnOfIgnored(options: InferenceSession.RunOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || (name === 'terminate' && value !== true)) continue
    warnIgnored(
      `The run option '${name}'`,
      name === 'terminate'
        ? 'Model.infer() takes a signal by which runs are stopped.'
        : 'requests share runs. Options of all runs of a model are its runOptions (createOrt).',
    )
  }
}

/**
 * Metadata of a model's inputs or outputs, in the form of a session.
 *
 * @throws InferenceError `ERR_MODEL_LOAD` for element types that onnxruntime-common has no tensors for.
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
 * Copies answers into the tensors that the caller provides (`run(feeds, { y: tensor })`), and returns those.
 * Other outputs stay as they are.
 *
 * @param fetches by output name: the tensor, or `null` for none.
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

/** A model held by one session. */
interface HeldModel {
  readonly model: Model
  /** Releases the model. It is unloaded when no session holds it. Call this once. */
  release(): Promise<void>
}

/** A model that the sessions with one key share. */
interface SharedModel {
  readonly loading: Promise<Model>
  holders: number
}

/** The models behind the sessions of each engine, by {@link keyOf}, and how many were loaded. */
const modelsOf = new WeakMap<InferenceEngine, { readonly shared: Map<string, SharedModel>; loads: number }>()

/**
 * Loads a model for a session of an engine, or shares one that is loaded: sessions created from the same file with the same
 * options share a model. Rejects as {@link InferenceEngine.load} does.
 */
export async function holdModel(
  engine: InferenceEngine,
  source: string | Uint8Array,
  options: ModelOptions,
): Promise<HeldModel> {
  let models = modelsOf.get(engine)
  if (models === undefined) modelsOf.set(engine, (models = { shared: new Map(), loads: 0 }))
  const { shared } = models
  const key = keyOf(source, options)
  let own = key === null ? undefined : shared.get(key)
  if (own === undefined) {
    const where = typeof source === 'string' ? { path: source } : { bytes: source }
    const name = `${typeof source === 'string' ? basename(source) : 'model'}#${++models.loads}`
    own = { loading: engine.load(name, { ...options, ...where }), holders: 0 }
    if (key !== null) shared.set(key, own)
  }
  const held = own
  /** Later sessions load another. */
  const forget = (): void => {
    if (key !== null && shared.get(key) === held) shared.delete(key)
  }
  const leave = (): boolean => {
    const isLast = --held.holders === 0
    if (isLast) forget()
    return isLast
  }
  held.holders++
  try {
    const model = await held.loading
    if (model.state === 'ready') return { model, release: async () => (leave() ? model.unload() : undefined) }
  } catch (error) {
    leave()
    throw error
  }
  // The shared model has failed, or was unloaded elsewhere: this session and later ones load another.
  forget()
  leave()
  return holdModel(engine, source, options)
}

/**
 * A key that is equal for sessions that may share a model: same file in the same state, same options. `null`
 * for models given as bytes, and if the options contain bytes or values that cannot be compared.
 */
function keyOf(source: string | Uint8Array, options: ModelOptions): string | null {
  const path = typeof source === 'string' ? filePath(source) : null
  if (path === null || options.sessionOptions?.externalData !== undefined) return null
  try {
    return JSON.stringify([resolve(path), fileStateOf(resolve(path)), options], sorted)
  } catch {
    return null // not serialisable: the load reports what is wrong
  }
}

const identities = new WeakMap<object, number>()
let known = 0

/**
 * A replacer for JSON by which the order of options does not matter. Values that are no plain data (functions, tensors) are
 * equal only if they are the same object.
 */
function sorted(_: string, value: unknown): unknown {
  if (isPlainObject(value))
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || Array.isArray(value))
    return value
  if (!identities.has(value)) identities.set(value, ++known)
  return `object ${identities.get(value)}`
}
