import { basename } from 'node:path'
import { tryInProcess } from '../run/executors/native/trial-process.ts'
import { InferenceError } from '../errors.ts'
import type { Capabilities, InferenceErrorCode, ModelMetadata } from '../index.ts'

/** A model that an engine has opened. */
export interface OpenedModel {
  readonly metadata: ModelMetadata
  readonly executor: Capabilities['executor']
}

/** The child's answer: the model, or why it cannot be opened. */
export type OpeningAnswer = OpenedModel | { readonly code: InferenceErrorCode; readonly message: string }

/** Milliseconds to open and try a model, unless the user sets another limit. */
export const openingLimitMs = 120_000

/**
 * Opens a model with an engine in a child process, which ends afterwards. If ONNX Runtime crashes on the
 * model, that becomes an error.
 *
 * @throws InferenceError as `engine.load()` does; `ERR_MODEL_LOAD` if the process crashed or did not finish.
 */
export async function openModel(path: string, limitMs = openingLimitMs): Promise<OpenedModel> {
  const model = basename(path)
  const answer = await tryInProcess<OpeningAnswer>('cli/opening-child.js', [path], limitMs, false)
  if ('reason' in answer) {
    const message = `Model '${model}' cannot be loaded from ${path}: ${answer.reason}`
    throw new InferenceError('ERR_MODEL_LOAD', message, {
      model,
      name: 'path',
      expected: 'a model that ONNX Runtime can load',
      received: path,
    })
  }
  if ('code' in answer) throw new InferenceError(answer.code, answer.message, { model })
  return answer
}
