import { basename } from 'node:path'
import { tryInProcess } from '../run/executors/native/trial-process.ts'
import { InferenceError } from '../errors.ts'
import type { Capabilities, InferenceErrorCode, ModelMetadata } from '../index.ts'

/** A model as an engine has opened it. */
export interface OpenedModel {
  readonly metadata: ModelMetadata
  readonly executor: Capabilities['executor']
}

/** What the child says: that, or why the model cannot be opened. */
export type OpeningAnswer = OpenedModel | { readonly code: InferenceErrorCode; readonly message: string }

/** How long a model may take to be opened and tried, unless the user says otherwise, in milliseconds. */
export const openingLimitMs = 120_000

/**
 * Opens a model with an engine in a process of its own, which is gone afterwards: a model that ONNX Runtime dies of is an error
 * like any other.
 *
 * @throws InferenceError as `engine.load()`; `ERR_MODEL_LOAD` when the process died of it, or did not come to an end.
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
