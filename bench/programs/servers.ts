import { createRequire } from 'node:module'
import { InferenceEngine, Tensor, type ModelConfig } from 'zerohop'
import type { BenchModel } from '../models.ts'

/** Settings of one side of a comparison. */
export interface Side {
  readonly side: 'ours' | 'plain'
  readonly model: BenchModel
  /** Rows per request. */
  readonly rows?: number
  readonly intraOpNumThreads?: number
  readonly maxBatchSize?: number
}

/** Something that answers requests. */
export interface Server {
  infer(feeds: Record<string, Tensor>): Promise<unknown>
  close(): Promise<void>
}

/** zerohop, or a plain session on this thread. */
export async function openServer({ side, model, intraOpNumThreads, maxBatchSize }: Side): Promise<Server> {
  const sessionOptions = intraOpNumThreads === undefined ? {} : { intraOpNumThreads }
  if (side === 'ours') {
    const engine = new InferenceEngine()
    const config: ModelConfig = { path: model.path, sessionOptions, ...(maxBatchSize === undefined ? {} : { maxBatchSize }) }
    const loaded = await engine.load('model', config)
    return { infer: (feeds) => loaded.infer(feeds), close: () => engine.close() }
  }
  const ort = createRequire(import.meta.url)('onnxruntime-node') as typeof import('onnxruntime-node')
  const session = await ort.InferenceSession.create(model.path, sessionOptions)
  return { infer: (feeds) => session.run(feeds), close: () => session.release() }
}

/** A request of its own for a caller, the same for both sides. */
export function feedsFor({ model, rows = 1 }: Side, caller: number): Record<string, Tensor> {
  const elements = rows * model.rowDims.reduce((count, dim) => count * dim, 1)
  return { [model.input]: new Tensor('float32', new Float32Array(elements).fill(caller / 100), [rows, ...model.rowDims]) }
}
