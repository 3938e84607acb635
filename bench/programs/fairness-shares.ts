import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, type Model } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'

/** Models that are alike but for their weight, each with more work than it can do, on one worker. */
export interface FairnessSharesInput {
  readonly model: BenchModel
  readonly maxBatchSize: number
  readonly weights: readonly number[]
  readonly callersEach: number
  readonly warmupSeconds: number
  readonly seconds: number
}

/** What each model got. */
export interface FairnessSharesResult {
  /** Of the compute time of all, by model. */
  readonly shares: readonly number[]
  /** Mean compute time of a run, in milliseconds. */
  readonly runMs: number
}

const { model, maxBatchSize, weights, callersEach, warmupSeconds, seconds } = input<FairnessSharesInput>()
const engine = new InferenceEngine({ cpuWorkers: 1 })
const models: Model[] = []
for (const [index, weight] of weights.entries()) {
  models.push(await engine.load(`model ${index}`, { path: model.path, maxBatchSize, weight }))
}
let stopped = false
const callers = models.flatMap((loaded) =>
  Array.from({ length: callersEach }, async (_, caller) => {
    const feeds = feedsFor(model, caller)
    while (!stopped) await loaded.infer(feeds)
  }),
)

/** Compute time so far, by model, and runs of all. */
function computed(): { ms: number[]; runs: number } {
  const all = models.map((loaded) => loaded.stats())
  const ms = all.map(
    ({ batchStats }) => batchStats.reduce((sum, { computeInfer }) => sum + computeInfer.ns, 0) / 1e6,
  )
  return { ms, runs: all.reduce((sum, { executionCount }) => sum + executionCount, 0) }
}

await sleep(warmupSeconds * 1000)
const before = computed()
await sleep(seconds * 1000)
const after = computed()
stopped = true
await Promise.all(callers)
await engine.close()
const gained = after.ms.map((ms, index) => ms - before.ms[index]!)
const total = gained.reduce((sum, ms) => sum + ms, 0)
answer({
  shares: gained.map((ms) => ms / total),
  runMs: total / (after.runs - before.runs),
} satisfies FairnessSharesResult)
