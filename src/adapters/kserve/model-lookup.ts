import { cut, InferenceError } from '../../errors.ts'
import type { InferenceEngine } from '../../engine.ts'
import type { Model } from '../../model.ts'
import { HttpFailure } from './http-failure.ts'

/** A model that a path names, or a version of it. */
export interface ModelName {
  readonly name: string
  readonly version: string | undefined
}

/** @throws HttpFailure 404, in the words by which clients of Triton know it. */
export function findModel(engine: InferenceEngine, { name, version }: ModelName): Model {
  try {
    return engine.model(name, version)
  } catch (error) {
    if (!(error instanceof InferenceError) || error.code !== 'ERR_MODEL_NOT_FOUND') throw error
    throw new HttpFailure(
      404,
      `Request for unknown model: '${cut(name, 200)}'${version === undefined ? '' : ` version ${version}`} is not found`,
    )
  }
}
