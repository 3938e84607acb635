// One thread of a Piscina: a session of its own, and a run for each task.
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { workerData } from 'piscina'

const { path, options } = workerData
const session = await InferenceSession.create(path, options)

export default async function run({ name, data, dims }) {
  const outputs = await session.run({ [name]: new Tensor('float32', data, dims) })
  return Object.fromEntries(
    Object.entries(outputs).map(([output, { data, dims }]) => [output, { data, dims }]),
  )
}
