import type { BatchReport } from '../config/infer-options.ts'
import type { AnyOutputs } from '../config/model-signature.ts'
import type { Answer, InferRequest } from '../request/infer-request.ts'

/** Outputs as a request asked for them: with a report, or without. */
export function answerOf(
  { wantsReport }: InferRequest,
  outputs: AnyOutputs,
  report: () => BatchReport,
): Answer {
  return wantsReport ? { outputs, report: report() } : outputs
}
