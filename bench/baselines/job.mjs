// One job as people run it: a process that loads the model, uses it once, and ends. Plain JavaScript, so that nothing
// but the job is timed.
import ort from 'onnxruntime-node'

const { model, image } = JSON.parse(process.argv[2])
const session = await ort.InferenceSession.create(model.path)
const dims = [1, ...model.rowDims]
const data = new Float32Array(dims.reduce((count, dim) => count * dim, 1)).fill(image / 100)
await session.run({ [model.input]: new ort.Tensor('float32', data, dims) })
process.send(image, () => process.disconnect())
