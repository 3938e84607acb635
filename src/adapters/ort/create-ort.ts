import {
  env,
  type Env,
  InferenceSession,
  type InferenceSessionFactory,
  type InferenceSessionHandler,
  Tensor,
} from 'onnxruntime-common'
import { InferenceEngine } from '../../engine.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { ModelOptions } from '../../options/model-config.ts'
import { readPlain } from '../../options/plain-options.ts'
import { EngineSession, holdModel } from './engine-session.ts'
import { checkSessionOptions, modelSettings, wrongOutputName } from './ort-session-options.ts'

/** The API of onnxruntime-node, served by an engine. */
export interface Ort {
  /** Opens sessions: `create(path | bytes, options?)`. */
  readonly InferenceSession: InferenceSessionFactory
  /** The class of onnxruntime-common that the library uses. */
  readonly Tensor: typeof Tensor
  /** The object of onnxruntime-common. It has no effect on the engine. */
  readonly env: Env
  /** The engine that serves the sessions, with their statistics and events. */
  readonly engine: InferenceEngine
}

/**
 * The API of onnxruntime-node, served by your own engine. Sessions of the same file and options share one
 * model; concurrent runs of a model share batches if its rows are independent.
 *
 * @param options for every model, such as `padding`, `dynamicBatching` or `instanceGroup`. Options of a
 * session take precedence.
 * @throws InferenceError `ERR_INVALID_ARG` if `engine` is no engine, or `options` no options.
 */
export function createOrt(engine: InferenceEngine, options: ModelOptions = {}): Ort {
  checkEngine(engine)
  return ortOf(() => engine, readPlain('options', options))
}

/** @throws InferenceError `ERR_INVALID_ARG`. */
export function checkEngine(engine: unknown): void {
  if (!(engine instanceof InferenceEngine)) throw invalidArgument('engine', 'an InferenceEngine', engine)
}

/** Like {@link createOrt}, with an engine that is created at its first use. */
export function ortOf(engine: () => InferenceEngine, options: ModelOptions = {}): Ort {
  return {
    InferenceSession: sessionClass(engine, options),
    Tensor,
    env,
    get engine() {
      return engine()
    },
  }
}

/** Loads a model for one session. */
export async function openSession(
  engine: InferenceEngine,
  source: string | Uint8Array,
  settings: ModelOptions,
): Promise<EngineSession> {
  const held = await holdModel(engine, source, settings)
  try {
    return new EngineSession(held)
  } catch (error) {
    await held.release()
    throw error
  }
}

let engine: InferenceEngine | null = null

/** The shared default engine, created at its first use. While idle it does not keep the process alive. */
export function defaultEngine(): InferenceEngine {
  return (engine ??= new InferenceEngine())
}

/**
 * The session class of any copy of onnxruntime-common. Its backends construct it with a handler, which does
 * the work. The class checks the arguments of `run()`, with all overloads, and returns tensors of its own
 * copy.
 */
export type SessionClass = new (handler: InferenceSessionHandler) => InferenceSession

const CommonSession = InferenceSession as unknown as SessionClass

function sessionClass(engine: () => InferenceEngine, defaults: ModelOptions): InferenceSessionFactory {
  class EngineInferenceSession extends CommonSession {
    static async create(...given: unknown[]): Promise<InferenceSession> {
      const { source, options: unchecked } = readCreateArguments(given)
      const options = checkSessionOptions(unchecked, defaults)
      if (source.length === 0)
        throw notOpened(
          new InferenceError(
            'ERR_MODEL_LOAD',
            'Model data pointer is null: No graph was found in the protobuf, as it has no bytes.',
            { name: 'buffer' },
          ),
        )
      try {
        const settings = await modelSettings(options, defaults)
        const session = new EngineInferenceSession(await openSession(engine(), source, settings))
        const wrong = wrongOutputName(options, session.outputNames)
        if (wrong === null) return session
        await session.release()
        throw wrong
      } catch (error) {
        throw notOpened(error)
      }
    }
  }
  Object.defineProperty(EngineInferenceSession, 'name', { value: 'InferenceSession' })
  return EngineInferenceSession
}

/**
 * The error of a failed `create()`, in the form that code for onnxruntime-node expects: an `Error` by name,
 * with a message that says that loading failed.
 */
function notOpened(error: unknown): unknown {
  if (!(error instanceof InferenceError)) return error
  const own = error as { name: string; message: string }
  own.name = 'Error'
  if (error.code === 'ERR_MODEL_NOT_FOUND') own.message = `Load model failed: ${error.message}`
  return error
}

/** Arguments of `InferenceSession.create()`. */
interface CreateArguments {
  /** A path, or the bytes of a model. */
  readonly source: string | Uint8Array
  readonly options: InferenceSession.SessionOptions
}

/**
 * Reads the arguments of `create(path | bytes, options?)` and `create(buffer, byteOffset, byteLength?,
 * options?)`.
 *
 * @throws TypeError, RangeError with the messages of onnxruntime-common, which code written for it may check.
 */
function readCreateArguments([first, ...rest]: readonly unknown[]): CreateArguments {
  if (typeof first === 'string' || first instanceof Uint8Array)
    return { source: first, options: readOptions(rest[0]) }
  if (!isBuffer(first)) throw new TypeError("Unexpected argument[0]: must be 'path' or 'buffer'.")
  if (typeof rest[0] !== 'number') return { source: new Uint8Array(first), options: readOptions(rest[0]) }
  const [byteOffset, byteLength, options] = rest
  if (!Number.isSafeInteger(byteOffset)) throw new RangeError("'byteOffset' must be an integer.")
  if (byteOffset < 0 || byteOffset >= first.byteLength)
    throw new RangeError(`'byteOffset' is out of range [0, ${first.byteLength}).`)
  const most = first.byteLength - byteOffset
  if (byteLength === undefined)
    return { source: new Uint8Array(first, byteOffset), options: readOptions(options) }
  if (typeof byteLength !== 'number') throw new TypeError("'byteLength' must be a number.")
  if (!Number.isSafeInteger(byteLength)) throw new RangeError("'byteLength' must be an integer.")
  if (byteLength <= 0 || byteLength > most) throw new RangeError(`'byteLength' is out of range (0, ${most}].`)
  return { source: new Uint8Array(first, byteOffset, byteLength), options: readOptions(options) }
}

function isBuffer(value: unknown): value is ArrayBufferLike {
  return value instanceof ArrayBuffer || value instanceof SharedArrayBuffer
}

function readOptions(options: unknown): InferenceSession.SessionOptions {
  if (options === undefined) return {}
  if (typeof options !== 'object' || options === null) throw new TypeError("'options' must be an object.")
  return options
}
