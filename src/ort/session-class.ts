import { InferenceSession, type InferenceSessionFactory, type InferenceSessionHandler } from 'onnxruntime-common'
import { readCreateArguments, type CreateArguments } from './create-arguments.ts'

/**
 * The class of sessions in any copy of onnxruntime-common, as it is made by all of its backends: with a handler, which does the work. It checks the
 * arguments of `run()`, with all their overloads, and answers with tensors of its own copy.
 */
export type SessionClass = new (handler: InferenceSessionHandler) => InferenceSession

const CommonSession = InferenceSession as unknown as SessionClass

/** A class of sessions that are opened by `open`. */
export function sessionClass(open: (created: CreateArguments) => Promise<InferenceSessionHandler>): InferenceSessionFactory {
  class EngineInferenceSession extends CommonSession {
    static async create(...given: unknown[]): Promise<InferenceSession> {
      return new EngineInferenceSession(await open(readCreateArguments(given)))
    }
  }
  Object.defineProperty(EngineInferenceSession, 'name', { value: 'InferenceSession' })
  return EngineInferenceSession
}
