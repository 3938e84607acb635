import { strictEqual } from 'node:assert/strict'
import { InferenceEngine, Tensor } from 'zerohop'

/** Loads a model, asks it, and looks whether the package's own binary did the work. */
export async function askDigits() {
  const engine = new InferenceEngine()
  try {
    const model = await engine.load('digits', { path: process.env.DIGITS_MODEL })
    const image = new Tensor('float32', new Float32Array(64).fill(128), [1, 1, 8, 8])
    const { probabilities } = await model.infer({ image })
    strictEqual(probabilities.dims.join(), '1,10')
    strictEqual(engine.capabilities().executor.kind, 'native')
  } finally {
    await engine.close()
  }
}
