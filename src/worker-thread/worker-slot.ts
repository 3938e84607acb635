import type { Tensor, TensorConstructor } from 'onnxruntime-common'
import type { SlotLayout, TensorPlace } from '../executor/executor.ts'
import type { SlotMemory } from '../memory/staging-pool.ts'
import { bytesPerElement, elementCount, storageOf, type TensorType } from '../tensor.ts'
import type { TensorMetadata } from '../metadata.ts'
import type { NamedTensors } from './onnxruntime.ts'
import { numericTensor } from './ort-tensors.ts'
import { SlotBytes } from './slot-bytes.ts'

/** A layout made ready to run: tensors over the slot's bytes, built once and kept. */
export interface PreparedLayout {
  readonly feeds: NamedTensors
  readonly fetches: Record<string, Tensor | null>
  /** Byte ranges to copy in and out when ONNX Runtime cannot read the shared memory itself. */
  readonly inputRanges: readonly [start: number, end: number][]
  readonly outputRanges: readonly [start: number, end: number][]
  /** Names of the outputs that are written to their places in the slot. */
  readonly placedOutputs: readonly string[]
  /** Whether there are outputs whose sizes only the run tells. */
  readonly mailedOutputs: boolean
  readonly layout: SlotLayout
  /** Whether a run has found its outputs to be of the sizes laid out. */
  proven: boolean
}

/** The worker's side of one staging slot. */
export class WorkerSlot {
  readonly sessionId: number
  readonly layouts: PreparedLayout[] = []
  readonly #Tensor: TensorConstructor
  readonly bytes: SlotBytes

  constructor(sessionId: number, memory: SlotMemory, Tensor: TensorConstructor) {
    this.sessionId = sessionId
    this.#Tensor = Tensor
    this.bytes = new SlotBytes(memory)
  }

  /** Lets go of the slot's memory; nothing may be run there any more. */
  release(): void {
    this.layouts.length = 0
    this.bytes.release()
  }

  prepare(layoutIndex: number, layout: SlotLayout, inputs: readonly TensorMetadata[], outputs: readonly TensorMetadata[]): void {
    const feeds: NamedTensors = {}
    const fetches: Record<string, Tensor | null> = {}
    const inputRanges: [number, number][] = []
    const outputRanges: [number, number][] = []
    for (const [index, place] of layout.inputs.entries()) {
      if (!place) continue
      const { name, type } = inputs[index]!
      feeds[name] = this.#tensor(type, place)
      inputRanges.push(byteRange(type, place))
    }
    const placedOutputs: string[] = []
    let mailedOutputs = false
    for (const [index, place] of layout.outputs.entries()) {
      if (place === undefined) continue
      const { name, type } = outputs[index]!
      fetches[name] = place === null ? null : this.#tensor(type, place)
      if (place === null) mailedOutputs = true
      else {
        placedOutputs.push(name)
        outputRanges.push(byteRange(type, place))
      }
    }
    this.layouts[layoutIndex] = { feeds, fetches, inputRanges, outputRanges, placedOutputs, mailedOutputs, layout, proven: false }
  }

  /** Brings the inputs of a batch to where ONNX Runtime reads them. */
  copyIn(prepared: PreparedLayout): void {
    const { shared, visible } = this.bytes
    if (visible !== shared) copyRanges(shared, visible, prepared.inputRanges)
  }

  copyOut(prepared: PreparedLayout): void {
    const { shared, visible } = this.bytes
    if (visible !== shared) copyRanges(visible, shared, prepared.outputRanges)
  }

  #tensor(type: TensorType, { offset, dims }: TensorPlace): Tensor {
    return numericTensor(this.#Tensor, type, new (storageOf(type))(this.bytes.visible, offset, elementCount(dims)), dims)
  }
}

function byteRange(type: TensorType, { offset, dims }: TensorPlace): [number, number] {
  return [offset, offset + elementCount(dims) * bytesPerElement(type)]
}

function copyRanges(from: ArrayBufferLike, to: ArrayBufferLike, ranges: readonly [number, number][]): void {
  for (const [start, end] of ranges) new Uint8Array(to, start, end - start).set(new Uint8Array(from, start, end - start))
}
