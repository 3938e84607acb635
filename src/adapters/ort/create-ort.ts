import { env, Tensor, type Env, type InferenceSessionFactory } from 'onnxruntime-common'
import type { ModelOptions } from '../../options/model-config.ts'
import { readPlain } from '../../options/plain-options.ts'
import { InferenceEngine } from '../../engine.ts'
import { invalidArgument } from '../../errors.ts'
import { EngineSession } from './engine-session.ts'
import { modelSettings } from './model-settings.ts'
import { sessionClass } from './session-class.ts'
import { SessionModels } from './session-models.ts'

/** The API of onnxruntime-node, served by an engine. */
export interface Ort {
  /** Opens sessions: `create(path | bytes, options?)`. */
  readonly InferenceSession: InferenceSessionFactory
  /** That of onnxruntime-common, as the rest of the library has it. */
  readonly Tensor: typeof Tensor
  /** Of onnxruntime-common; nothing in it changes what an engine does. */
  readonly env: Env
  /** By which the sessions are served: its statistics and events are theirs. */
  readonly engine: InferenceEngine
}

/**
 * The API of onnxruntime-node served by an engine of one's own: sessions of the same file and options share one model, and
 * concurrent runs of a model share batches where its rows are independent.
 *
 * @param options of every model, such as `padding`, `dynamicBatching` or `instanceGroup`; what a session says itself goes before them.
 * @throws InferenceError `ERR_INVALID_ARG` for what is no engine, or no options.
 */
export function createOrt(engine: InferenceEngine, options: ModelOptions = {}): Ort {
  checkEngine(engine)
  return ortOf(() => engine, readPlain('options', options))
}

/** @throws InferenceError `ERR_INVALID_ARG`. */
export function checkEngine(engine: unknown): void {
  if (!(engine instanceof InferenceEngine)) throw invalidArgument('engine', 'an InferenceEngine', engine)
}

/** The same with an engine that is made when it is first used. */
export function ortOf(engine: () => InferenceEngine, options: ModelOptions = {}): Ort {
  const open = (source: string | Uint8Array, settings: ModelOptions) =>
    openSession(engine(), source, settings)
  return {
    InferenceSession: sessionClass(async (created) =>
      open(created.source, await modelSettings(created.options, options)),
    ),
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
  const held = await SessionModels.of(engine).hold(source, settings)
  try {
    return new EngineSession(held)
  } catch (error) {
    await held.release()
    throw error
  }
}
