// A thread that runs one session without a pause, until it is told to stop.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { InferenceSession, Tensor } from 'onnxruntime-node'

const { path, input, dims } = workerData
const session = await InferenceSession.create(path)
const feeds = {
  [input]: new Tensor('float32', new Float32Array(dims.reduce((count, dim) => count * dim, 1)), dims),
}
let stopped = false
parentPort.once('message', () => (stopped = true))
parentPort.postMessage('ready')
while (!stopped) {
  await session.run(feeds)
  await nextTurn()
}
await session.release()
