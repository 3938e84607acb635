import type * as Zerohop from 'zerohop'
import { answer, input } from '../../child.ts'
import type { CudaQuestion } from '../cuda-question.ts'

const { entry, path, input: name, dims, attempts } = input<CudaQuestion>()
const { InferenceEngine, Tensor } = (await import(entry)) as typeof Zerohop
const engine = new InferenceEngine({ executor: 'native', cpuWorkers: 1 })
const feeds = {
  [name]: new Tensor('float32', new Float32Array(dims.reduce((a, b) => a * b, 1)).fill(1), dims),
}

const found: Record<string, string | null> = {}
for (const [attempt, options] of Object.entries(attempts)) {
  try {
    const model = await engine.load(attempt, { path, executionProviders: [{ name: 'cuda', ...options }] })
    await model.infer(feeds)
    found[attempt] = null
  } catch (error) {
    found[attempt] = (error as Error).message
  }
}
await engine.close()
answer(found)
