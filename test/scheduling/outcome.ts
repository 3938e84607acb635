import type { BatchReport, Feeds, InferOptions, Model, Outputs } from '../../src/index.ts'

/** What became of a request: `'answered'`, the code of its error, or the reason with which it was aborted. */
export function outcomeOf(answer: Promise<unknown>): Promise<unknown> {
  return answer.then(
    () => 'answered',
    (reason: { code?: string } | string) => (reason as { code?: string }).code ?? reason,
  )
}

/** Outcomes of several, in their order. */
export const outcomesOf = (answers: readonly Promise<unknown>[]): Promise<unknown[]> =>
  Promise.all(answers.map(outcomeOf))

/** The answer to one request with its report. */
export function reported(
  model: Model,
  feeds: Feeds,
  options?: InferOptions,
): Promise<{ outputs: Outputs; report: BatchReport }> {
  return model.infer(feeds, { ...options, report: true })
}

/** Requests that were accepted and are settled, as the statistics have them. */
export function settledCount(model: Model): number {
  const { success, fail } = model.stats().inferenceStats
  return success.count + fail.count
}

/** Requests rejected, summed over the reasons. */
export const rejectedCount = (model: Model): number =>
  Object.values(model.stats().rejections).reduce((sum, count) => sum + count)
