import type { InferenceSession } from 'onnxruntime-node'
import type { LoadSettings } from '../side.ts'

/** Of a session of onnxruntime-node, what is left out as it comes. */
export function plainOptions({
  intraOpNumThreads,
  spinUs,
  kind,
}: Pick<LoadSettings, 'intraOpNumThreads' | 'spinUs' | 'kind'>): InferenceSession.SessionOptions {
  return {
    ...(kind === undefined ? {} : { executionProviders: [kind] }),
    ...(intraOpNumThreads === undefined ? {} : { intraOpNumThreads }),
    ...(spinUs === undefined
      ? {}
      : { extra: { session: { intra_op: { allow_spinning: '1', spin_duration_us: String(spinUs) } } } }),
  }
}
