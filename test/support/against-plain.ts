import type { InferOptions, Model } from '../../src/index.ts'
import { feedsOf, runPlain, type Samples } from './plain.ts'
import { expectSame } from './same.ts'

/**
 * Sends all requests to the engine at once and asserts that each is answered as plain onnxruntime-node answers it alone.
 */
export async function matchesPlain(
  model: Model,
  requests: readonly Samples[],
  { same = expectSame, ...options }: InferOptions & { same?: typeof expectSame } = {},
): Promise<void> {
  const answers = await Promise.all(requests.map((request) => model.infer(feedsOf(request), options)))
  for (const [index, request] of requests.entries()) {
    same(answers[index]!, await runPlain(model.metadata.path, request, options.outputs))
  }
}

/** Sizes of the batches that were run so far, in rows. */
export const batchSizes = (model: Model): number[] =>
  model.stats().batchStats.map(({ batchSize }) => batchSize)

/** The largest of them. */
export const largestBatch = (model: Model): number => Math.max(0, ...batchSizes(model))
