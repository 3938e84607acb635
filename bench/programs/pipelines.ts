import { InferenceEngine, Tensor, type Model } from 'zerohop'
import { askFor } from '../callers.ts'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { percentile } from '../statistics.ts'

/** Callers that send the next request as soon as the one before is answered, through models one behind the other. */
export interface PipelinesInput {
  readonly model: BenchModel
  /** How many models there are. */
  readonly steps: number
  readonly callers: number
  readonly side: 'by hand' | 'pipeline'
  readonly seconds: number
}

export interface PipelinesResult {
  readonly requestsPerSecond: number
  readonly p50Us: number
  /** Of the process, for each request. */
  readonly cpuUs: number
}

const { model, steps, callers, side, seconds } = input<PipelinesInput>()
const engine = new InferenceEngine()
const names = Array.from({ length: steps }, (_, step) => `step-${step}`)
const models: Model[] = []
for (const name of names) models.push(await engine.load(name, { path: model.path, maxBatchSize: 64 }))
const pipeline = await engine.loadPipeline('pipeline', {
  inputs: ['x0'],
  steps: names.map((name, step) => ({
    model: name,
    inputs: { [model.input]: `x${step}` },
    outputs: { y: `x${step + 1}` },
  })),
  outputs: [`x${steps}`],
})
const elements = model.rowDims.reduce((product, dim) => product * dim, 1)

async function byHand(x: Tensor): Promise<unknown> {
  let value = x
  for (const each of models) value = (await each.infer({ [model.input]: value }))['y']!
  return value
}

const x = new Tensor('float32', new Float32Array(elements).fill(1), [1, ...model.rowDims])
const ask = side === 'by hand' ? () => byHand(x) : () => pipeline.infer({ x0: x })
await askFor(300 * seconds, callers, ask)
const before = process.cpuUsage()
const { timesUs, tookMs } = await askFor(1000 * seconds, callers, ask)
const { user, system } = process.cpuUsage(before)
const count = timesUs.length
timesUs.sort((a, b) => a - b)
answer({
  requestsPerSecond: (count / tookMs) * 1000,
  p50Us: percentile(timesUs, 0.5),
  cpuUs: (user + system) / count,
} satisfies PipelinesResult)
await engine.close()
