import type { BatchReport } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import type { Answer, InferRequest } from '../../request/infer-request.ts'

/** Outputs as a request asked for them: with a report, or without. */
export function answerOf(
  { wantsReport }: InferRequest,
  outputs: AnyOutputs,
  report: () => BatchReport,
): Answer {
  return wantsReport ? { outputs, report: report() } : outputs
}
