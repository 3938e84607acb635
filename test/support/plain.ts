import { InferenceSession, Tensor } from 'onnxruntime-node'
import type { TensorData, TensorType } from '../../src/index.ts'

/** What a tensor is made of, in a form that both the engine's feeds and plain onnxruntime-node's are made from. */
export interface Sample {
  readonly type: TensorType
  readonly dims: readonly number[]
  readonly data: TensorData | string[]
}

/** Inputs by name. */
export type Samples = Readonly<Record<string, Sample>>

const sessions = new Map<string, Promise<InferenceSession>>()

/** The outputs that onnxruntime-node itself gives for one request. Sessions are opened once per file. */
export async function runPlain(
  path: string,
  samples: Samples,
  outputs?: readonly string[],
): Promise<Record<string, Tensor>> {
  let session = sessions.get(path)
  if (session === undefined)
    sessions.set(path, (session = InferenceSession.create(path, { logSeverityLevel: 4 })))
  const feeds = feedsOf(samples)
  const opened = await session
  const results = await (outputs
    ? opened.run(feeds, outputs, { logSeverityLevel: 4 })
    : opened.run(feeds, { logSeverityLevel: 4 }))
  return { ...results }
}

/** Tensors of their own for one request. */
export function feedsOf(samples: Samples): Record<string, Tensor> {
  return Object.fromEntries(Object.entries(samples).map(([name, sample]) => [name, tensorOf(sample)]))
}

function tensorOf({ type, dims, data }: Sample): Tensor {
  const own = data.slice() as Float32Array
  const tensor = new Tensor(type as 'float32', own, dims)
  // Node 24 and newer: onnxruntime-common makes it a Float16Array, which onnxruntime-node reads as empty.
  if (type === 'float16') (tensor as unknown as { cpuData: unknown }).cpuData = own
  return tensor
}
