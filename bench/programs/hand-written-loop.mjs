// What somebody would write who has no analyzer: it shares no line with it.
import { InferenceEngine, Tensor } from 'zerohop'

const { path, input, rowDims, concurrency, warmupSeconds, seconds } = JSON.parse(process.argv[2])
const engine = new InferenceEngine()
const model = await engine.load('model', { path })
const data = Float32Array.from({ length: rowDims.reduce((a, b) => a * b, 1) }, () => Math.random())
const feeds = { [input]: new Tensor('float32', data, [1, ...rowDims]) }

let latencies = []
let stopped = false
async function caller() {
  while (!stopped) {
    const start = performance.now()
    await model.infer(feeds)
    latencies.push(performance.now() - start)
  }
}
const callers = Array.from({ length: concurrency }, caller)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

await sleep(warmupSeconds * 1000)
latencies = []
const start = performance.now()
await sleep(seconds * 1000)
const measured = latencies
latencies = []
const elapsed = performance.now() - start
const count = measured.length
stopped = true
await Promise.all(callers)
await engine.close()

const sorted = Float64Array.from(measured.slice(0, count)).sort()
process.send({ perSecond: (count / elapsed) * 1000, p99Us: sorted[Math.ceil(0.99 * count) - 1] * 1000 }, () =>
  process.disconnect(),
)
