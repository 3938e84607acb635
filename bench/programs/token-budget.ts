import { InferenceEngine, Tensor, type ModelOptions } from 'zerohop'
import { mulberry32, uniform } from '../../test/models/random.ts'
import { answer, input } from '../child.ts'
import type { SequenceModel } from '../models.ts'
import { percentile } from '../statistics.ts'
import { openLoop, poissonTimes } from './open-loop.ts'

/** Texts of many lengths, of one row each. */
export interface TokenBudgetInput {
  readonly model: SequenceModel
  readonly maxBatchSize: number
  readonly dynamicBatching: NonNullable<ModelOptions['dynamicBatching']>
  /** Lengths are log-normal: half of them are at most `median`, and nine of ten at most `p90`; none is longer than `longest`. */
  readonly lengths: { readonly median: number; readonly p90: number; readonly longest: number }
  /** So many callers that each wait for their answer, or requests a second at the moments of a Poisson process. */
  readonly load: { readonly callers: number } | { readonly perSecond: number }
  readonly warmupSeconds: number
  readonly seconds: number
}

/** What it came to. */
export interface TokenBudgetResult {
  readonly requestsPerSecond: number
  /** Positions that requests brought. */
  readonly tokensPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly meanBatchRows: number
  /** Of what was run, which part was padding. */
  readonly waste: number
  /** Positions of the largest batch. */
  readonly largestBatch: number
  /** Most that ONNX Runtime's arena had in use. */
  readonly arenaBytes: number
}

/** Deviations from the median to the ninth of ten of a normal distribution. */
const toP90 = 1.2816

const { model, maxBatchSize, dynamicBatching, lengths, load, warmupSeconds, seconds } =
  input<TokenBudgetInput>()
const { path, width } = model
const random = mulberry32(3)
const engine = new InferenceEngine()
const padding = { input: model.input, dim: 1, outputs: [{ name: model.output, dim: 1 }] }
const loaded = await engine.load('texts', { path, maxBatchSize, padding, dynamicBatching })
const row = uniform(random, lengths.longest * width, 1)
let tokens = 0
let largestBatch = 0
let latenciesMs: number[] = []

function drawLength(): number {
  const { median, p90, longest } = lengths
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return Math.min(longest, Math.max(1, Math.round(median * (p90 / median) ** (normal / toP90))))
}

async function ask(fromMs: number): Promise<void> {
  const length = drawLength()
  const { report } = await loaded.infer(
    { [model.input]: new Tensor('float32', row.subarray(0, length * width), [1, length, width]) },
    { report: true },
  )
  latenciesMs.push(performance.now() - fromMs)
  tokens += length
  largestBatch = Math.max(largestBatch, report.batchSize * report.paddedTo!)
}

async function send(forSeconds: number, seed: number): Promise<void> {
  if ('callers' in load) {
    const endMs = performance.now() + forSeconds * 1000
    const loop = async () => {
      while (performance.now() < endMs) await ask(performance.now())
    }
    await Promise.all(Array.from({ length: load.callers }, loop))
    return
  }
  const asked: Promise<void>[] = []
  await openLoop(
    poissonTimes(seed, load.perSecond, forSeconds * 1000),
    (intendedMs) => void asked.push(ask(intendedMs)),
  )
  await Promise.all(asked)
}

await send(warmupSeconds, 4)
const before = loaded.stats()
tokens = 0
latenciesMs = []
const startMs = performance.now()
await send(seconds, 5)
const took = (performance.now() - startMs) / 1000
const after = loaded.stats()
await engine.close()
const padded = after.padding.paddedElements - before.padding.paddedElements
answer({
  requestsPerSecond: latenciesMs.length / took,
  tokensPerSecond: tokens / took,
  p50Ms: percentile(latenciesMs, 0.5),
  p99Ms: percentile(latenciesMs, 0.99),
  meanBatchRows:
    (after.inferenceCount - before.inferenceCount) / (after.executionCount - before.executionCount),
  waste: 1 - (after.padding.ownElements - before.padding.ownElements) / padded,
  largestBatch,
  arenaBytes: after.arena?.mostInUseBytes ?? 0,
} satisfies TokenBudgetResult)
