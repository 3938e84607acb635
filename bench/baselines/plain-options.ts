import type { InferenceSession } from 'onnxruntime-node'
import type { LoadSettings } from '../side.ts'

/** Of a session of onnxruntime-node, what is left out as it comes. */
export function plainOptions({ intraOpNumThreads, spinning }: Pick<LoadSettings, 'intraOpNumThreads' | 'spinning'>): InferenceSession.SessionOptions {
  return {
    ...(intraOpNumThreads === undefined ? {} : { intraOpNumThreads }),
    ...(spinning === undefined ? {} : { extra: { session: { intra_op: { allow_spinning: spinning ? '1' : '0' } } } }),
  }
}
