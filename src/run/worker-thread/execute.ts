import type { Tensor, TensorConstructor } from 'onnxruntime-common'
import type { TensorMetadata } from '../../tensor/metadata.ts'
import type { MailedTensor, TensorData } from '../../tensor/tensor.ts'
import type { NamedTensors, Session } from './onnxruntime.ts'
import {
  byName,
  mailedTensor,
  type PreparedLayout,
  type PreparedOutput,
  type WorkerSlot,
} from './worker-slot.ts'
import type { SampleRun } from '../executors/executor.ts'

/** An open session with what of it is served. */
export interface OpenModel {
  readonly session: Session
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}

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
