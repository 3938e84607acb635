import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InferenceError, type Capabilities, type InferenceErrorCode, type ModelMetadata } from '../index.ts'
import { askChild } from './ask-child.ts'

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
  const result = await askChild<OpeningAnswer>(childFile(), [path], limitMs)
  if ('ended' in result) {
    const message = `Model '${model}' cannot be loaded from ${path}: a process of its own in which it was opened ${result.ended}`
    throw new InferenceError('ERR_MODEL_LOAD', message, { model, name: 'path', expected: 'a model that ONNX Runtime can load', received: path })
  }
  const { answer } = result
  if ('code' in answer) throw new InferenceError(answer.code, answer.message, { model })
  return answer
}

/** The compiled program beside this file, or in `dist/` when this file runs from its TypeScript source. */
function childFile(): string {
  const beside = fileURLToPath(new URL('./opening-child.js', import.meta.url))
  return existsSync(beside) ? beside : fileURLToPath(new URL('../../dist/cli/opening-child.js', import.meta.url))
}
