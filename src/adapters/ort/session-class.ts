import {
  InferenceSession,
  type InferenceSessionFactory,
  type InferenceSessionHandler,
} from 'onnxruntime-common'
import { InferenceError } from '../../errors.ts'
import { checkSessionOptions } from './check-options.ts'
import { readCreateArguments, type CreateArguments } from './create-arguments.ts'

/**
 * The class of sessions in any copy of onnxruntime-common, as it is made by all of its backends: with a handler, which does the work. It checks the
 * arguments of `run()`, with all their overloads, and answers with tensors of its own copy.
 */
export type SessionClass = new (handler: InferenceSessionHandler) => InferenceSession

const CommonSession = InferenceSession as unknown as SessionClass

/** A class of sessions that are opened by `open`. */
export function sessionClass(
  open: (created: CreateArguments) => Promise<InferenceSessionHandler>,
): InferenceSessionFactory {
  class EngineInferenceSession extends CommonSession {
    static async create(...given: unknown[]): Promise<InferenceSession> {
      const created = readCreateArguments(given)
      checkSessionOptions(created.options)
      if (created.source.length === 0)
        throw notOpened(
          new InferenceError(
            'ERR_MODEL_LOAD',
            'Model data pointer is null: No graph was found in the protobuf, as it has no bytes.',
            { name: 'buffer' },
          ),
        )
      try {
        return new EngineInferenceSession(await open(created))
      } catch (error) {
        throw notOpened(error)
      }
    }
  }
  Object.defineProperty(EngineInferenceSession, 'name', { value: 'InferenceSession' })
  return EngineInferenceSession
}

/** An error of what cannot be opened, as code that is written for onnxruntime-node looks for it: an `Error` by name, that says that it failed. */
function notOpened(error: unknown): unknown {
  if (!(error instanceof InferenceError)) return error
  const own = error as { name: string; message: string }
  own.name = 'Error'
  if (error.code === 'ERR_MODEL_NOT_FOUND') own.message = `Load model failed: ${error.message}`
  return error
}
