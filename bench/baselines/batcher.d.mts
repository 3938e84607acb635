import type { InferenceSession } from 'onnxruntime-node'
import type { Answer } from '../side.ts'

/** @param session a model of one input and one output. */
export function batcher(
  session: Pick<InferenceSession, 'inputNames' | 'outputNames' | 'run'>,
  maxRows: number,
): (row: Float32Array) => Promise<Answer>
