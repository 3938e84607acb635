import { InferenceEngine, Tensor } from 'zerohop'

export const dynamic = 'force-dynamic'

let engine
let model

/** One engine for the process, loaded with the first request. */
function digits() {
  engine ??= new InferenceEngine()
  model ??= engine.load('digits', { path: process.env.DIGITS_MODEL })
  return model
}

export async function GET() {
  const image = new Tensor('float32', new Float32Array(64).fill(128), [1, 1, 8, 8])
  const { probabilities } = await (await digits()).infer({ image })
  return Response.json({ dims: probabilities.dims, executor: engine.capabilities().executor.kind })
}
