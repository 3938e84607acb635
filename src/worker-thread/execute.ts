import type { TransferListItem } from 'node:worker_threads'
import type { TensorConstructor } from 'onnxruntime-common'
import type { TensorMetadata } from '../metadata.ts'
import type { MailedTensor } from '../tensor.ts'
import { discard } from './discard.ts'
import type { NamedTensors, Session } from './onnxruntime.ts'
import { mailedTensor } from './ort-tensors.ts'
import type { PreparedLayout, WorkerSlot } from './worker-slot.ts'

/** Outputs that leave the worker by message, and what of them is moved rather than copied. */
export interface MailedOutputs {
  readonly outputs: (MailedTensor | null | undefined)[]
  readonly transfer: TransferListItem[]
}

/** ONNX Runtime's words for "the output is not of the size you prepared". */
const wrongOutputSize = /OrtValue (provided for output|shape verification failed)|invalid (dimensions|rank) for output/i

/**
 * Runs one batch. Outputs of known size are written into the slot by ONNX Runtime itself; `null` means that all were.
 * A model whose output turns out to be of another size than it declares is run once more without prepared outputs.
 */
export async function execute(
  session: Session,
  servedOutputs: readonly TensorMetadata[],
  slot: WorkerSlot,
  prepared: PreparedLayout,
  feeds: NamedTensors,
): Promise<MailedOutputs | null> {
  slot.copyIn(prepared)
  let results: NamedTensors
  let allMailed = false
  try {
    // Until it has fitted once the layout is a guess; that it is wrong is no error to be printed.
    const running = session.run(feeds, prepared.fetches, !prepared.proven)
    results = running instanceof Promise ? await running : running
    prepared.proven = true
  } catch (error) {
    if (prepared.outputRanges.length === 0 || !wrongOutputSize.test((error as Error).message)) throw error
    const unprepared = Object.fromEntries(Object.keys(prepared.fetches).map((name) => [name, null]))
    results = await session.run(feeds, unprepared)
    allMailed = true
  }
  if (!allMailed) {
    slot.copyOut(prepared)
    for (const name of prepared.placedOutputs) discard(results[name]!, prepared.fetches[name]!)
  }
  return allMailed || prepared.mailedOutputs ? mailOutputs(results, servedOutputs, prepared, allMailed) : null
}

function mailOutputs(
  results: NamedTensors,
  servedOutputs: readonly TensorMetadata[],
  prepared: PreparedLayout,
  allMailed: boolean,
): MailedOutputs {
  const transfer: TransferListItem[] = []
  const outputs = prepared.layout.outputs.map((place, index): MailedTensor | null | undefined => {
    if (place === undefined) return undefined
    if (place !== null && !allMailed) return null
    const { name, type } = servedOutputs[index]!
    const tensor = results[name]!
    const data = tensor.data
    if (Array.isArray(data)) return { type, dims: tensor.dims, data }
    const { buffer, byteOffset, byteLength } = data as Uint8Array<ArrayBuffer>
    const own = byteLength === buffer.byteLength && !transfer.includes(buffer)
    const bytes = own ? buffer : buffer.slice(byteOffset, byteOffset + byteLength)
    transfer.push(bytes)
    return { type, dims: tensor.dims, data: bytes }
  })
  return { outputs, transfer }
}

/** The feeds of a batch some of whose inputs came by message. */
export function withMailed(
  feeds: NamedTensors,
  inputs: readonly TensorMetadata[],
  mailed: readonly (MailedTensor | null)[],
  TensorClass: TensorConstructor,
): NamedTensors {
  const all = { ...feeds }
  for (const [index, value] of mailed.entries()) {
    if (value !== null) all[inputs[index]!.name] = mailedTensor(TensorClass, value)
  }
  return all
}
