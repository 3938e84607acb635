// Loads a model, runs it with one row of four ones as input `x`, and fetches the outputs of the given names: for runs that can take the
// whole process down.
import { InferenceSession, Tensor } from 'onnxruntime-node'

const [, , path, ...outputs] = process.argv
const session = await InferenceSession.create(path)
await session.run({ x: new Tensor('float32', new Float32Array(4).fill(1), [1, 4]) }, outputs)
