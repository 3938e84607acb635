// One caller, so many requests, each after the answer to the one before: to be run by a tool that counts instructions.
import { InferenceEngine, Tensor } from 'zerohop'

const { engine: options, path, input, rowDims, requests } = JSON.parse(process.argv[2])
const engine = new InferenceEngine({ ...options, cpuWorkers: 1, workers: { startTimeoutMs: 1_800_000 } })
const model = await engine.load('model', {
  path,
  maxBatchSize: 64,
  checkRows: false,
  sessionOptions: { intraOpNumThreads: 1 },
})
const dims = [1, ...rowDims]
const feeds = {
  [input]: new Tensor('float32', new Float32Array(dims.reduce((count, dim) => count * dim, 1)), dims),
}
for (let count = 0; count < requests; count++) await model.infer(feeds)
process.exit()
