// All jobs in one process, against one engine.
import { InferenceEngine, Tensor } from 'zerohop'

const { engine: engineOptions, model, images, jobs, config } = JSON.parse(process.argv[2])
const engine = new InferenceEngine(engineOptions)
const loaded = await engine.load('model', { ...config, path: model.path })
const dims = [1, ...model.rowDims]
const elements = dims.reduce((count, dim) => count * dim, 1)
let next = 0
await Promise.all(
  Array.from({ length: Math.min(jobs, images) }, async () => {
    while (next < images) {
      const data = new Float32Array(elements).fill(next++ / 100)
      await loaded.infer({ [model.input]: new Tensor('float32', data, dims) })
    }
  }),
)
await engine.close()
process.send(images, () => process.disconnect())
