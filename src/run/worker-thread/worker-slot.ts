import type { Tensor, TensorConstructor } from 'onnxruntime-common'
import type { SlotLayout, TensorPlace } from '../executors/executor.ts'
import {
  byteLengthOf,
  elementCount,
  storageOf,
  type ElementType,
  type MailedTensor,
  type TensorData,
} from '../../tensor/tensor.ts'
import type { TensorMetadata } from '../../tensor/metadata.ts'
import type { NamedTensors } from './onnxruntime.ts'

/** An output that is wanted, and where it goes. */
export interface PreparedOutput {
  /** Index among the outputs that are served. */
  readonly index: number
  readonly metadata: TensorMetadata
  /** Its place in the slot, and the dims it has to have to lie there; `null` when only the run tells them. */
  readonly place: TensorData | null
  readonly dims: readonly number[] | null
}

/** A layout made ready to run: tensors over the slot's bytes, built once and kept. */
export interface PreparedLayout {
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

  /** The inputs of a batch that were sent for it: those of one that was taken back may still be here. */
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
export function byName<T>(): Record<string, T> {
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
export function mailedTensor(Tensor: TensorConstructor, { type, dims, data }: MailedTensor): Tensor {
  if (data instanceof ArrayBuffer) return numericTensor(Tensor, type, new (storageOf(type))(data), dims)
  return new Tensor('string', data as string[], dims)
}
