import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, Tensor, type ModelConfig } from 'zerohop'
import { answer, input } from '../child.ts'
import { percentile } from '../statistics.ts'

/** A configuration under closed loops of callers with a row each: written without anything of the tuner. */
export interface TunedLoop {
  readonly config: ModelConfig
  readonly concurrency: number
  readonly warmupSeconds: number
  readonly seconds: number
}

export interface TunedLoopResult {
  readonly rowsPerSecond: number
  readonly p99Ms: number
}

const { config, concurrency, warmupSeconds, seconds } = input<TunedLoop>()
const engine = new InferenceEngine()
const model = await engine.load('model', config)
const [{ name, shape }] = model.metadata.inputs as [(typeof model.metadata.inputs)[number]]
const dims = [1, ...shape.slice(1).map(Number)]
const length = dims.reduce((product, dim) => product * dim, 1)
const feeds = {
  [name]: new Tensor(
    'float32',
    Float32Array.from({ length }, (_, index) => (index % 17) / 17),
    dims,
  ),
}

let latenciesMs: number[] = []
let done = 0
let stopped = false
let onAnswer: (() => void) | null = null

const callers = Array.from({ length: concurrency }, async () => {
  while (!stopped) {
    const startMs = performance.now()
    await model.infer(feeds)
    latenciesMs.push(performance.now() - startMs)
    done++
    onAnswer?.()
  }
})

/** From one moment at which answers have come to another: whole batches are counted over the time that they took. */
function nextAnswers(): Promise<{ done: number; atMs: number }> {
  return new Promise((resolve) => {
    onAnswer = () => {
      onAnswer = null
      setImmediate(() => resolve({ done, atMs: performance.now() }))
    }
  })
}

await sleep(warmupSeconds * 1000)
const first = await nextAnswers()
latenciesMs = []
await sleep(seconds * 1000)
const last = await nextAnswers()
const p99Ms = percentile(latenciesMs, 0.99)
stopped = true
await Promise.all(callers)
await engine.close()
const result: TunedLoopResult = {
  rowsPerSecond: ((last.done - first.done) / (last.atMs - first.atMs)) * 1000,
  p99Ms,
}
answer(result)
