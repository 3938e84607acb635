import type { TensorConstructor } from 'onnxruntime-common'
import type { TrialResult } from '../executor/binding/protocol.ts'
import type { TensorMetadata } from '../metadata.ts'
import type { MailedTensor } from '../tensor.ts'
import type { NamedTensors, Session } from './onnxruntime.ts'
import { mailedTensor } from './ort-tensors.ts'

/** An open session with what of it is served. */
interface TriedModel {
  readonly session: Session
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}

/**
 * Runs a session once, quietly, and gives its outputs with the buffers to be moved. Whatever goes wrong is in the
 * result: a session that was closed meanwhile (`undefined`), inputs that are no tensors, a run that fails.
 */
export async function runTrial(
  model: TriedModel | undefined,
  feeds: readonly (MailedTensor | null)[],
  Tensor: TensorConstructor,
): Promise<{ result: TrialResult; transfer: ArrayBuffer[] }> {
  const transfer: ArrayBuffer[] = []
  let runMs = 0
  try {
    if (model === undefined) throw new Error('The session is closed.')
    const named: NamedTensors = {}
    for (const [index, feed] of feeds.entries()) if (feed !== null) named[model.inputs[index]!.name] = mailedTensor(Tensor, feed)
    const fetches = Object.fromEntries(model.outputs.map(({ name }) => [name, null]))
    const startMs = performance.now()
    const results = await model.session.run(named, fetches, true)
    runMs = performance.now() - startMs
    const outputs = model.outputs.map(({ name, type }): MailedTensor => {
      const { dims, data } = results[name]!
      if (Array.isArray(data)) return { type, dims, data: data as string[] }
      const { buffer, byteOffset, byteLength } = data as Uint8Array<ArrayBuffer>
      const bytes = buffer.slice(byteOffset, byteOffset + byteLength)
      transfer.push(bytes)
      return { type, dims, data: bytes }
    })
    return { result: { error: null, runMs, outputs }, transfer }
  } catch (error) {
    return { result: { error: (error as Error).message, runMs, outputs: [] }, transfer: [] }
  }
}
