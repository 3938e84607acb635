// A model opened as onnxruntime-node does it, in a new process: how long that took, and the first run and those after it, in milliseconds.
import { input, times } from './first-and-later.mjs'
import { InferenceSession, Tensor } from 'onnxruntime-node'

const { path, name, dims, later } = input
const startMs = performance.now()
const session = await InferenceSession.create(path)
const loadMs = performance.now() - startMs
const feeds = { [name]: new Tensor('float32', times.row(dims), dims) }
const { firstMs, laterMs, outputs } = await times.measure(later, () => session.run(feeds))
process.send({ loadMs, firstMs, laterMs, outputs }, () => process.exit())
