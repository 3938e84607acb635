// Measures a start in a process of its own: importing modules, or loading a model by onnxruntime-node or an engine up to its
// first answer; loading it again; and memory, after a garbage collection. `compiled` is the graph of a compiled model, which
// onnxruntime-node opens as it is. Plain JavaScript, so that nothing else is loaded.
import { readFileSync } from 'node:fs'

const { modules = [], model = null, side = 'plain', compiled = null, engine: options = {}, again = false, instances = 1, measureMemory = false, fillsCache = false } = JSON.parse(process.argv[2]) // prettier-ignore

const sinceMs = async (step) => {
  const startMs = performance.now()
  const result = await step()
  return { ms: performance.now() - startMs, result }
}

const { ms: importMs } = await sinceMs(async () => {
  for (const name of modules) await import(name)
})
const answer = { importMs }
let close = () => {}
if (model !== null) {
  const { path, input, rowDims } = model
  const dims = [1, ...rowDims]
  const data = new Float32Array(dims.reduce((product, dim) => product * dim)).fill(0.5)
  const startMs = performance.now()
  if (side === 'plain') {
    const { InferenceSession, Tensor } = await import('onnxruntime-node')
    const session = await InferenceSession.create(
      compiled ?? path,
      compiled === null ? {} : { graphOptimizationLevel: 'disabled' },
    )
    answer.loadMs = performance.now() - startMs
    await session.run({ [input]: new Tensor('float32', data, dims) })
    answer.firstMs = performance.now() - startMs
    if (again) answer.secondMs = (await sinceMs(() => InferenceSession.create(path))).ms
  } else {
    const { InferenceEngine, Tensor } = await import('zerohop')
    const engine = new InferenceEngine(options)
    const instanceGroup = [{ kind: 'cpu', count: instances }]
    const loaded = await engine.load('model', { path, instanceGroup })
    answer.loadMs = performance.now() - startMs
    await loaded.infer({ [input]: new Tensor('float32', data, dims) })
    answer.firstMs = performance.now() - startMs
    if (again) answer.secondMs = (await sinceMs(() => engine.load('again', { path, instanceGroup }))).ms
    close = async () => {
      if (fillsCache) await (await import('zerohop/internals')).modelsCompiled(engine)
      await engine.close()
    }
  }
}
if (measureMemory) {
  globalThis.gc()
  answer.heapBytes = process.memoryUsage().heapUsed
  answer.pssBytes =
    Number(/^Pss:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))?.[1] ?? 0) * 1024
}
await close()
process.send(answer, () => process.disconnect())
