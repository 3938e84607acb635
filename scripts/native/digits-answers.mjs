// Serves the digits of a file of pixels and prints what the engine made of them, as JSON: node digits-answers.mjs PIXELS. Half of them
// are written into leased rows, half are handed over as tensors.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { InferenceEngine } from '../../dist/index.js'

const digits = JSON.parse(readFileSync(process.argv[2], 'utf8'))
// Nothing is tried out on load: an emulated processor takes too long for it.
const engine = new InferenceEngine({ cpuWorkers: 1, verify: 'none' })
const model = await engine.load('digits', {
  path: fileURLToPath(new URL('../../examples/digits/model.onnx', import.meta.url)),
})
const [{ name }] = model.metadata.inputs

const outputs = await Promise.all(
  digits.map(({ pixels }, index) => (index % 2 === 0 ? inLeasedRow(pixels) : asTensor(pixels))),
)

function inLeasedRow(pixels) {
  const lease = model.lease()
  lease.inputs[name].set(pixels)
  return lease.infer()
}

function asTensor(pixels) {
  return model.infer({ [name]: { type: 'float32', dims: [1, 1, 8, 8], data: Float32Array.from(pixels) } })
}

const { native, executor } = engine.capabilities()
const { highWaterBytes } = engine.stats().staging
const scores = outputs.map((output) => [...Object.values(output)[0].data])
const { arch, version } = process
console.log(JSON.stringify({ arch, version, native, executor, stagedBytes: highWaterBytes, scores }))
await engine.close()
