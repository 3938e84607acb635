import type { Executor, TensorPlace } from '../executor/executor.ts'
import type { MailedValue } from '../values.ts'
import type { StagingBuffer } from '../memory/staging-pool.ts'
import { elementCount, isPacked, type ElementType, type TensorData } from '../tensor.ts'
import { checkElements, gatherBlocks, gatherMailed, gatherPacked, gatherPadded } from './gather-rows.ts'
import { layOut, viewOf, type BatchLayout } from './layout.ts'
import { gatherRagged, hasRaggedInputs, roomForRows } from './ragged-rows.ts'
import type { Batch } from './batch.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../metadata.ts'
import type { Padding } from '../request/padding.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** What slots are made of. */
export interface SlotSource {
  nextSlotId(): number
  acquire(byteLength: number): StagingBuffer
  /** Gives memory that nothing holds back to the system. */
  trim(): void
  /** See {@link Carrier.movesFromBytes}. */
  readonly movesFromBytes: number
}

/** A layout with this thread's views of its tensors. */
export interface ViewedLayout extends BatchLayout {
  readonly index: number
  readonly inputViews: readonly (TensorData | null | undefined)[]
  readonly outputViews: readonly (TensorData | null | undefined)[]
  /** Elements of one row of each input. */
  readonly inputRowElements: readonly number[]
  /** Elements of one row of each output; for a request that runs as it is, of the whole. */
  readonly outputRowElements: readonly number[]
  /** How often a row of each input begins anew: once where rows lie one behind the other; 0 for what all rows share. */
  readonly inputBlocks: readonly number[]
  readonly outputBlocks: readonly number[]
  /** Which dimension of each output counts rows. */
  readonly outputAxes: readonly number[]
  /** Whether elements of some input or output share bytes. */
  readonly packs: boolean
  /** The lengths to which the batch is padded, by entry of the model's {@link Padding}; `null` without padding. */
  readonly lengths: readonly number[] | null
  /** By input, the dims of each row where rows have their own; `null` where none have. */
  readonly rowDims: readonly (Int32Array | null)[] | null
  /** Whether the worker knows this layout. */
  known: boolean
}

/** Most layouts remembered per slot, here and by the worker; models of variable shapes make many. */
const maxLayouts = 512
/** Layouts of batches of so many rows are found without making a key, and stay; less than {@link maxLayouts}. */
const mostByRows = 256
const minBytes = 4096
const doubledBelowBytes = 2 ** 20

/** Memory for a batch of `neededBytes`, and for somewhat larger ones to come: the double at most, from 1 MiB on a quarter. */
export function roomFor(neededBytes: number): number {
  const power = 2 ** Math.ceil(Math.log2(Math.max(minBytes, neededBytes)))
  const step = power > doubledBelowBytes ? power / 8 : power
  return Math.ceil(neededBytes / step) * step || minBytes
}

/** The application's side of one staging slot: where the rows of a batch are gathered and its outputs appear. */
export class StagingSlot {
  readonly id: number
  readonly #metadata: ModelMetadata
  readonly #padding: Padding | null
  readonly #source: SlotSource
  readonly #ragged: boolean
  #buffer: StagingBuffer | null = null
  #bufferKnown = false
  readonly #byRows: ViewedLayout[] = [] // fixed shapes, all outputs, few rows: the hot case
  readonly #byKey = new Map<string, ViewedLayout>()
  #layouts = 0
  /** The batch in flight. */
  batch: Batch | null = null
  /** Its requests, and what stands in slots of sequences that have none. */
  requests: readonly InferRequest[] = []
  /** All of its rows. */
  rows = 0
  layout: ViewedLayout | null = null
  /** When the batch was taken from the queue and when it had been gathered, in milliseconds. */
  takenAtMs = 0
  gatheredAtMs = 0

  constructor(source: SlotSource, metadata: ModelMetadata, padding: Padding | null) {
    this.id = source.nextSlotId()
    this.#source = source
    this.#metadata = metadata
    this.#padding = padding
    this.#ragged = hasRaggedInputs(metadata)
  }

  /** How many of its requests stand for none. */
  get emptyRows(): number {
    return this.batch === null ? 0 : this.requests.length - this.batch.requests.length
  }

  /** Whether it holds memory that is only to be kept while it is needed. */
  get large(): boolean {
    return this.#buffer !== null && this.#buffer.byteLength >= this.#buffer.largeFromBytes
  }

  /** Whether the batch in it needs that memory. */
  get neededLarge(): boolean {
    return this.layout !== null && this.layout.byteLength >= this.#buffer!.largeFromBytes
  }

  /** Takes memory that was made ahead. */
  adopt(buffer: StagingBuffer): void {
    this.release()
    this.#buffer = buffer
  }

  /** Finds or makes the layout of a batch and memory for it. */
  layoutFor(batch: readonly InferRequest[], rows: number, outputMask: number, unpredictable: ReadonlySet<number>): ViewedLayout {
    const first = batch[0]!
    const hot = first.bucketKey === '' && outputMask === -1 && rows <= mostByRows
    if (hot) return (this.#byRows[rows] ??= this.#make(first, null, rows, outputMask, unpredictable))
    const lengths = first.whole ? null : (this.#padding?.lengths(batch) ?? null)
    const room = this.#ragged ? roomForRows(this.#metadata, batch) : null
    const key = `${rows}|${outputMask}|${first.bucketKey}|${(room ?? lengths)?.join() ?? ''}`
    let layout = this.#byKey.get(key)
    if (layout === undefined) this.#byKey.set(key, (layout = this.#make(first, lengths, rows, outputMask, unpredictable, room)))
    return layout
  }

  #make(
    request: InferRequest,
    lengths: readonly number[] | null,
    rows: number,
    outputMask: number,
    unpredictable: ReadonlySet<number>,
    room: readonly (number | undefined)[] | null = null,
  ): ViewedLayout {
    const dims = lengths === null ? request.dims : this.#padded(request.dims!, lengths)
    const layout = layOut(this.#metadata, rows, request.data, dims, outputMask, unpredictable, request.whole, this.#source.movesFromBytes, room)
    if (this.#buffer === null || this.#buffer.byteLength < layout.byteLength) this.#grow(layout.byteLength)
    return this.#view(layout, lengths, this.#metadata.maxBatchSize > 0 && !request.whole)
  }

  #padded(dims: readonly (readonly number[])[], lengths: readonly number[]): (readonly number[])[] {
    return dims.map((own, index) => {
      const entry = this.#padding!.byInput[index]
      if (entry === undefined) return own
      const { axis } = this.#padding!.inputs[entry]!
      return own.map((dim, at) => (at === axis ? lengths[entry]! : dim))
    })
  }

  /** Tells the worker what it does not know yet of the slot and of `layout`. */
  announce(executor: Executor, sessionId: number, layout: ViewedLayout): void {
    if (!this.#bufferKnown) {
      executor.defineSlot(this.id, sessionId, this.#buffer!.memory)
      this.#bufferKnown = true
    }
    if (!layout.known) {
      const { inputs, outputs } = layout
      executor.defineLayout(this.id, layout.index, { inputs, outputs })
      layout.known = true
    }
  }

  /** Copies the rows of `batch` into the slot; what cannot lie there is returned to go by message. */
  gather(batch: readonly InferRequest[], layout: ViewedLayout): readonly (MailedValue | null)[] | null {
    let mailed: (MailedValue | null)[] | null = null
    for (let index = 0; index < layout.inputViews.length; index++) {
      const view = layout.inputViews[index]
      if (view === undefined) continue
      if (view === null) {
        mailed ??= layout.inputViews.map(() => null)
        mailed[index] = gatherMailed(this.#metadata.inputs[index]!, layout.inputBlocks[index] === 0 ? [batch[0]!] : batch, index, layout.inputDims[index]!)
      } else if (layout.rowDims?.[index] != null) {
        gatherRagged(batch, index, view, layout.rowDims[index]!)
      } else if (layout.lengths !== null && this.#padding!.byInput[index] !== undefined) {
        gatherPadded(batch, this.#padding!, index, layout.inputDims[index]!, layout.lengths, view)
      } else if (layout.packs && isPacked(this.#metadata.inputs[index]!.type as ElementType)) {
        gatherPacked(batch, index, view as Uint8Array, layout.inputRowElements[index]!)
      } else if (layout.inputBlocks[index] !== 1) {
        gatherBlocks(batch, index, view, layout.inputBlocks[index]!, layout.inputRowElements[index]!)
      } else {
        const rowElements = layout.inputRowElements[index]!
        let at = 0
        for (let member = 0; member < batch.length; member++) {
          const request = batch[member]!
          const data = request.data[index] as Float32Array
          const elements = batch.length === 1 ? view.length : request.rows * rowElements
          checkElements(data, elements)
          ;(view as Float32Array).set(data, at)
          at += elements
        }
      }
    }
    return mailed
  }

  /** Forgets all layouts, and that a worker knows the slot: for a new thread, after a failure, or when an output is of another size than was reckoned. */
  forgetLayouts(): void {
    this.#bufferKnown = false
    this.#byRows.length = 0
    this.#byKey.clear()
    this.#layouts = 0
  }

  release(): void {
    this.forgetLayouts()
    this.#buffer?.release()
    this.#buffer = null
  }

  #grow(neededBytes: number): void {
    this.release()
    this.#buffer = this.#source.acquire(roomFor(neededBytes))
  }

  #view(layout: BatchLayout, lengths: readonly number[] | null, batched: boolean): ViewedLayout {
    const { inputs, outputs } = this.#metadata
    const bytes = this.#buffer!.bytes
    const rowElements = (value: ValueMetadata, { dims }: TensorPlace) => elementCount(batched ? dims.filter((_, axis) => axis !== batchAxisOf(value)) : dims)
    const blocks = (value: ValueMetadata, place: TensorPlace | null | undefined) =>
      !batched ? 1 : batchAxisOf(value) === -1 ? 0 : !place ? 1 : elementCount(place.dims.slice(0, batchAxisOf(value)))
    return {
      ...layout,
      index: this.#nextIndex(),
      inputViews: layout.inputs.map((place, index) =>
        place ? viewOf(inputs[index]!.type as ElementType, bytes, place) : place,
      ),
      outputViews: layout.outputs.map((place, index) =>
        place ? viewOf(outputs[index]!.type as ElementType, bytes, place) : place,
      ),
      inputRowElements: layout.inputs.map((place, index) => (place ? rowElements(inputs[index]!, place) : -1)),
      outputRowElements: layout.outputs.map((place, index) => (place ? rowElements(outputs[index]!, place) : -1)),
      inputBlocks: layout.inputs.map((place, index) => blocks(inputs[index]!, place)),
      outputAxes: outputs.map(batchAxisOf),
      outputBlocks: layout.outputs.map((place, index) => blocks(outputs[index]!, place)),
      packs: [...inputs, ...outputs].some(({ type }) => isPacked(type as ElementType)),
      rowDims: this.#ragged ? layout.inputs.map((place, index) => (place?.rowDims ? new Int32Array(bytes, place.rowDims.offset, place.rowDims.rows * (layout.inputDims[index]!.length - 1)) : null)) : null,
      lengths,
      known: false,
    }
  }

  #nextIndex(): number {
    if (this.#layouts < maxLayouts) return this.#layouts++
    // Only one batch is in this slot at a time, and it is not in flight now: any layout that has a key can go.
    const [oldestKey, oldest] = this.#byKey.entries().next().value!
    this.#byKey.delete(oldestKey)
    return oldest.index
  }
}
