// Sends `requests` requests from `callers` callers. Each caller sends the next one as soon as it has its answer. A tool that
// counts instructions runs this.
const {
  engine: options,
  path,
  input,
  rowDims,
  maxBatchSize = 64,
  callers,
  requests,
} = JSON.parse(process.argv[2])
const sessionOptions = { intraOpNumThreads: 1 }
const row = new Float32Array(rowDims.reduce((count, dim) => count * dim, 1))

async function ours() {
  const { InferenceEngine, Tensor } = await import('zerohop')
  const engine = new InferenceEngine({ ...options, cpuWorkers: 1, workers: { startTimeoutMs: 1_800_000 } })
  const model = await engine.load('model', { path, maxBatchSize, checkRows: false, sessionOptions })
  const feeds = { [input]: new Tensor('float32', row, [1, ...rowDims]) }
  return () => model.infer(feeds)
}

async function theirs() {
  const { InferenceSession } = await import('onnxruntime-node')
  const { batcher } = await import('../baselines/batcher.mjs')
  const ask = batcher(await InferenceSession.create(path, sessionOptions), maxBatchSize)
  return () => ask(row)
}

const infer = options === null ? await theirs() : await ours()
let left = requests
const caller = async () => {
  while (left-- > 0) await infer()
}
await Promise.all(Array.from({ length: callers }, caller))
process.exit()
