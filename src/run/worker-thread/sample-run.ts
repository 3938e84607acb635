import type { TensorConstructor } from 'onnxruntime-common'
import type { SampleRun } from '../executors/executor.ts'
import type { MailedTensor } from '../../tensor/tensor.ts'
import { byName, mailedTensor } from './ort-tensors.ts'
import type { OpenModel } from './open-model.ts'

/**
 * Runs a session once, quietly. That the run fails is a result like any other.
 *
 * @returns what it gave, and the buffers of its outputs, to be moved.
 */
export async function runSample(
  { session, inputs, outputs }: OpenModel,
  feeds: readonly (MailedTensor | null)[],
  wantsOutputs: boolean,
  Tensor: TensorConstructor,
): Promise<{ run: SampleRun; transfer: ArrayBuffer[] }> {
  const named = byName<InstanceType<TensorConstructor>>()
  for (const [index, feed] of feeds.entries())
    if (feed !== null) named[inputs[index]!.name] = mailedTensor(Tensor, feed)
  const fetches = byName<null>()
  for (const { name } of outputs) fetches[name] = null
  const transfer: ArrayBuffer[] = []
  try {
    const startMs = performance.now()
    const results = await session.run(named, fetches, true)
    const runMs = performance.now() - startMs
    const given = (wantsOutputs ? outputs : []).map(({ name, type }): MailedTensor => {
      const { dims, data } = results[name]!
      if (Array.isArray(data)) return { type, dims, data: data as string[] }
      const { buffer, byteOffset, byteLength } = data as Uint8Array<ArrayBuffer>
      const bytes = buffer.slice(byteOffset, byteOffset + byteLength)
      transfer.push(bytes)
      return { type, dims, data: bytes }
    })
    return { run: { error: null, runMs, outputs: given }, transfer }
  } catch (error) {
    return { run: { error: (error as Error).message, runMs: 0, outputs: [] }, transfer: [] }
  }
}
