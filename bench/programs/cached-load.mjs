// A model opened by an engine with a cache, in a new process: how long that took, and the first run and those after it, in milliseconds.
import { input, times } from './first-and-later.mjs'
import { InferenceEngine, Tensor } from 'zerohop'
import { modelsCompiled } from 'zerohop/internals'

const { path, name, dims, later, dir } = input
const engine = new InferenceEngine({ cache: { dir }, verify: 'child' })
const startMs = performance.now()
const model = await engine.load('model', { path })
const loadMs = performance.now() - startMs
const feeds = { [name]: new Tensor('float32', times.row(dims), dims) }
const { firstMs, laterMs, outputs } = await times.measure(later, () => model.infer(feeds))
await modelsCompiled(engine) // for later processes
const { compiled, reason } = engine.capabilities().cache.models.model
await engine.close()
process.send({ loadMs, firstMs, laterMs, outputs, compiled, reason }, () => process.disconnect())
