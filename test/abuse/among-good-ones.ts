import { expect } from 'vitest'
import { InferenceEngine, type Model } from '../../src/index.ts'
import { twoInputsDifferentTypes } from '../models/small.ts'
import { expectRefusal, rejectionOf, type Refusal } from './refusal.ts'

/** An engine and a model of its, with everything that is made on first use already made. */
export interface Bench {
  readonly engine: InferenceEngine
  readonly model: Model
  /** A good request, told from others by `seed`; resolves with whether its answer is right. */
  good(seed: number): Promise<boolean>
}

/** y = a + b for a float32 ['N', 4] and b int64 ['N', 1], 8 rows at most. */
export async function benchOfTwoInputs(): Promise<Bench> {
  const engine = new InferenceEngine({ cpuWorkers: 1 })
  const model = await engine.load('two', { path: twoInputsDifferentTypes(), maxBatchSize: 8 })
  const good = async (seed: number) => {
    const { y } = await model.infer({ a: new Float32Array([seed, 1, 2, 3]), b: new BigInt64Array([10n]) })
    return (y!.data as Float32Array).join() === [seed + 10, 11, 12, 13].join()
  }
  await fourGoodOnes(good, () => {})
  return { engine, model, good }
}

/** Two good requests, what `between` does, and two more, all in one turn: one batch. */
async function fourGoodOnes(good: Bench['good'], between: () => void): Promise<boolean[]> {
  const before = [good(1), good(2)]
  between()
  return Promise.all([...before, good(3), good(4)])
}

/** What is to be as before once a bad request is settled. */
function held({ engine, model }: Bench) {
  const { batchStats, executionCount, inferenceStats, pendingRequestCount } = model.stats()
  const { usedBytes, fallbacks } = engine.stats().staging!
  return {
    runs: executionCount,
    batchesOfFour: batchStats.find(({ batchSize }) => batchSize === 4)!.computeInfer.count,
    succeeded: inferenceStats.success.count,
    failed: inferenceStats.fail.count,
    pendingRequestCount,
    usedBytes,
    fallbacks,
  }
}

/**
 * Makes a bad request in the midst of a batch of good ones. It has to be refused as described; the good ones get their
 * answers, from one batch of four, and nothing is left behind.
 *
 * @param accepted true when it is found to be bad only after it was accepted, so that it counts as failed.
 */
export async function refusedAmongGoodOnes(
  bench: Bench,
  bad: () => Promise<unknown>,
  refusal: Refusal,
  accepted = false,
) {
  const error = await keepsGoodOnesWell(bench, bad, accepted)
  expectRefusal(error, refusal)
}

/** The same for a request that is rejected with another reason than one of ours; returns the reason. */
export async function keepsGoodOnesWell(
  bench: Bench,
  bad: () => Promise<unknown>,
  accepted = false,
): Promise<unknown> {
  const before = held(bench)
  let rejection: Promise<unknown> | undefined
  const answers = await fourGoodOnes(bench.good, () => {
    rejection = rejectionOf(bad)
  })
  const error = await rejection
  expect(answers).toEqual([true, true, true, true])
  expect(held(bench)).toEqual({
    ...before,
    runs: before.runs + 1,
    batchesOfFour: before.batchesOfFour + 1,
    succeeded: before.succeeded + 4,
    failed: before.failed + (accepted ? 1 : 0),
  })
  return error
}
