import { InferenceEngine, Tensor, type ModelOptions } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'

/** A load in a new process without a cache, and the first batches after it. */
export interface FirstLoadInput {
  readonly model: BenchModel
  readonly options: ModelOptions
  readonly rows: number
}

export interface FirstLoadResult {
  readonly loadMs: number
  /** Of the first batch, and the least of those after it. */
  readonly firstMs: number
  readonly laterMs: number
}

const later = 5

const { model: { path, input: name, rowDims }, options, rows } = input<FirstLoadInput>() // prettier-ignore
const engine = new InferenceEngine()
const startMs = performance.now()
const model = await engine.load('model', { path, ...options })
const loadMs = performance.now() - startMs
const elements = rowDims.reduce((product, dim) => product * dim, rows)
const feeds = { [name]: new Tensor('float32', new Float32Array(elements).fill(0.5), [rows, ...rowDims]) }

async function tookMs(): Promise<number> {
  const startMs = performance.now()
  await model.infer(feeds)
  return performance.now() - startMs
}

const firstMs = await tookMs()
let laterMs = Infinity
for (let count = 0; count < later; count++) laterMs = Math.min(laterMs, await tookMs())
answer({ loadMs, firstMs, laterMs } satisfies FirstLoadResult)
await engine.close()
