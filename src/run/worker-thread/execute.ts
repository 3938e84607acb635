import type { Tensor, TensorConstructor } from 'onnxruntime-common'
import type { TensorMetadata } from '../../tensor/metadata.ts'
import {
  type MailedTensor,
  type TensorData,
  byteLengthOf,
  elementCount,
  storageOf,
  type ElementType,
} from '../../tensor/tensor.ts'
import type { NamedTensors, Session } from './onnxruntime.ts'
import type { SampleRun, SlotLayout, TensorPlace } from '../executors/executor.ts'

/** An open session with what of it is served. */
export interface OpenModel {
  readonly session: Session
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}

/** Outputs that leave the worker by message, and what of them is moved rather than copied. */
export interface SentOutputs {
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
): Promise<SentOutputs | null> {
  slot.copyIn(prepared)
  const running = session.run(feeds, prepared.fetches)
  const results = running instanceof Promise ? await running : running
  let sent: SentOutputs | null = null
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

/** An output that is wanted, and where it goes. */
interface PreparedOutput {
  /** Index among the outputs that are served. */
  readonly index: number
  readonly metadata: TensorMetadata
  /** Its place in the slot, and the dims it has to have to lie there; `null` when only the run tells them. */
  readonly place: TensorData | null
  readonly dims: readonly number[] | null
}

/** A layout made ready to run: tensors over the slot's bytes, built once and kept. */
interface PreparedLayout {
  readonly feeds: NamedTensors
  /** The names of what is wanted; no output is prepared. */
  readonly fetches: Record<string, null>
  readonly outputs: readonly PreparedOutput[]
  /** Byte ranges to copy in when ONNX Runtime cannot read the shared memory itself. */
  readonly inputRanges: readonly [start: number, end: number][]
  readonly layout: SlotLayout
}

/** The worker's side of one staging slot. */
export class WorkerSlot {
  readonly sessionId: number
  readonly layouts: PreparedLayout[] = []
  /** Inputs of its next batch that do not lie in it; taken by {@link takeMailed}. */
  mailed: readonly (MailedTensor | null)[] | null = null
  readonly #Tensor: TensorConstructor
  /** What the application's thread sees. */
  readonly #shared: SharedArrayBuffer
  /** What ONNX Runtime reads: the shared bytes, or private ones that inputs are copied to. */
  readonly #visible: ArrayBufferLike

  /** @param copied whether ONNX Runtime cannot read `shared` itself. */
  constructor(sessionId: number, shared: SharedArrayBuffer, copied: boolean, Tensor: TensorConstructor) {
    this.sessionId = sessionId
    this.#Tensor = Tensor
    this.#shared = shared
    this.#visible = copied ? new ArrayBuffer(shared.byteLength) : shared
  }

  get byteLength(): number {
    return this.#shared.byteLength
  }

  /** The inputs of a batch that were sent for it: those of one that was revoked may still be here. */
  takeMailed({ layout }: PreparedLayout): readonly (MailedTensor | null)[] | null {
    const { mailed } = this
    this.mailed = null
    return mailed !== null && layout.inputs.includes(null) ? mailed : null
  }

  prepare(
    layoutIndex: number,
    layout: SlotLayout,
    inputs: readonly TensorMetadata[],
    outputs: readonly TensorMetadata[],
  ): void {
    const feeds = byName<Tensor>()
    const fetches = byName<null>()
    const inputRanges: [number, number][] = []
    const prepared: PreparedOutput[] = []
    for (const [index, place] of layout.inputs.entries()) {
      if (!place) continue
      const { name, type } = inputs[index]!
      feeds[name] = this.#tensor(type, place)
      inputRanges.push([place.offset, place.offset + byteLength(type, place)])
    }
    for (const [index, place] of layout.outputs.entries()) {
      if (place === undefined) continue
      const metadata = outputs[index]!
      fetches[metadata.name] = null
      const elements =
        place && new (storageOf(metadata.type))(this.#shared, place.offset, elementCount(place.dims))
      prepared.push({ index, metadata, place: elements, dims: place && place.dims })
    }
    this.layouts[layoutIndex] = { feeds, fetches, outputs: prepared, inputRanges, layout }
  }

  /** Brings the inputs of a batch to where ONNX Runtime reads them. */
  copyIn({ inputRanges }: PreparedLayout): void {
    const [from, to] = [this.#shared, this.#visible]
    if (to === from) return
    for (const [start, end] of inputRanges)
      new Uint8Array(to, start, end - start).set(new Uint8Array(from, start, end - start))
  }

  #tensor(type: ElementType, { offset, dims }: TensorPlace): Tensor {
    return numericTensor(
      this.#Tensor,
      type,
      new (storageOf(type))(this.#visible, offset, elementCount(dims)),
      dims,
    )
  }
}

function byteLength(type: ElementType, { dims }: TensorPlace): number {
  return byteLengthOf(type, elementCount(dims))
}

/**
 * For values by name, as the binding takes them. Without a prototype: it asks for every name whether the object has it,
 * and any object has a `toString`.
 */
function byName<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}

/** A numeric tensor over `data`, which ONNX Runtime will read in place. */
function numericTensor(
  Tensor: TensorConstructor,
  type: ElementType,
  data: TensorData,
  dims: readonly number[],
): Tensor {
  const tensor = new Tensor(type as 'float32', data as Float32Array, dims)
  // Newer Node: onnxruntime-common turns float16's raw bits into a Float16Array, whose length the binding reads as 0.
  if (type === 'float16' && tensor.data !== (data as unknown))
    (tensor as unknown as { cpuData: unknown }).cpuData = data
  return tensor
}

/** A tensor from the form in which it travelled. */
function mailedTensor(Tensor: TensorConstructor, { type, dims, data }: MailedTensor): Tensor {
  if (data instanceof ArrayBuffer) return numericTensor(Tensor, type, new (storageOf(type))(data), dims)
  return new Tensor('string', data as string[], dims)
}
