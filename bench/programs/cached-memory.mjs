// A process with a model that stays until it is told to go: it says when the model is open, and when it has answered.
import { once } from 'node:events'
import { input, times } from './first-and-later.mjs'
import { InferenceEngine, Tensor } from 'zerohop'

const { path, name, dims, dir } = input
const engine = new InferenceEngine({
  cache: dir === null ? false : { dir },
  verify: dir === null ? 'none' : 'child',
})
const model = await engine.load('model', { path })
await model.infer({ [name]: new Tensor('float32', times.row(dims), dims) })
globalThis.gc()
process.send('ready')
await once(process, 'message')
await engine.close()
process.send('gone', () => process.disconnect())
