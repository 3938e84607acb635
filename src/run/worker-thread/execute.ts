import type { Tensor, TensorConstructor } from 'onnxruntime-common'
import type { TensorMetadata } from '../../tensor/metadata.ts'
import type { MailedTensor, TensorData } from '../../tensor/tensor.ts'
import type { NamedTensors, Session } from './onnxruntime.ts'
import { byName, mailedTensor } from './ort-tensors.ts'
import type { PreparedLayout, PreparedOutput, WorkerSlot } from './worker-slot.ts'

/** Outputs that leave the worker by message, and what of them is moved rather than copied. */
export interface MailedOutputs {
  readonly outputs: (MailedTensor | null | undefined)[]
  readonly transfer: ArrayBuffer[]
}

/**
 * Runs one batch. An output that is as it was laid out is copied to its place in the slot, any other is sent by message;
 * `null` means that all are in their places. ONNX Runtime could write to those places itself, but does not when an
 * output is an input or a constant of the graph, and its binding copies what it wrote all the same. So nothing is
 * answered that does not come out of the results of this very run.
 */
export async function execute(
  session: Session,
  slot: WorkerSlot,
  prepared: PreparedLayout,
  feeds: NamedTensors,
): Promise<MailedOutputs | null> {
  slot.copyIn(prepared)
  const running = session.run(feeds, prepared.fetches)
  const results = running instanceof Promise ? await running : running
  let sent: MailedOutputs | null = null
  for (const output of prepared.outputs) {
    const result = resultOf(results, output.metadata)
    if (output.place !== null && fits(result, output)) {
      copy(result.data as TensorData, output.place)
    } else {
      sent ??= {
        outputs: prepared.layout.outputs.map((place) => (place === undefined ? undefined : null)),
        transfer: [],
      }
      sent.outputs[output.index] = mailed(result, sent.transfer)
    }
  }
  return sent
}

/** @throws Error when the run gave no such output, or one of another type. */
function resultOf(results: NamedTensors, { name, type }: TensorMetadata): Tensor {
  const result = results[name] as Partial<Tensor> | undefined // by a name such as `toString`, what every object has
  if (result?.type === type) return result as Tensor
  throw new Error(
    `ONNX Runtime gave ${result?.type ?? 'nothing'} for output '${name}', which the model declares as ${type}`,
  )
}

function fits({ dims, data }: Tensor, { dims: expected, place }: PreparedOutput): boolean {
  if (!ArrayBuffer.isView(data) || data.byteLength !== place!.byteLength || dims.length !== expected!.length)
    return false
  for (let axis = 0; axis < dims.length; axis++) if (dims[axis] !== expected![axis]) return false
  return true
}

/** Bit by bit, whatever array the binding has for the type: float16 comes as a Float16Array where Node has one. */
function copy(data: TensorData, place: TensorData): void {
  if (data.constructor === place.constructor) return place.set(data as never)
  const { buffer, byteOffset, byteLength } = place
  new Uint8Array(buffer, byteOffset, byteLength).set(new Uint8Array(data.buffer, data.byteOffset, byteLength))
}

function mailed({ type, dims, data }: Tensor, transfer: ArrayBuffer[]): MailedTensor {
  if (Array.isArray(data)) return { type: 'string', dims, data }
  const { buffer, byteOffset, byteLength } = data as Uint8Array<ArrayBuffer>
  const own = byteLength === buffer.byteLength && !transfer.includes(buffer)
  const bytes = own ? buffer : buffer.slice(byteOffset, byteOffset + byteLength)
  transfer.push(bytes)
  return { type: type as MailedTensor['type'], dims, data: bytes }
}

/** The feeds of a batch some of whose inputs came by message. */
export function withMailed(
  feeds: NamedTensors,
  inputs: readonly TensorMetadata[],
  mailed: readonly (MailedTensor | null)[],
  TensorClass: TensorConstructor,
): NamedTensors {
  const all = Object.assign(byName<Tensor>(), feeds)
  for (const [index, value] of mailed.entries()) {
    if (value !== null) all[inputs[index]!.name] = mailedTensor(TensorClass, value)
  }
  return all
}
