import type { RunKind } from './thread-time.ts'
import type { Executor } from './executors/executor.ts'
import type { SlotMemory, StagingBuffer } from '../native/staging-pool.ts'
import type { RowBlocks } from '../native/row-blocks.ts'
import { gatherMoved, leasedRows, placeInBlock, type InPlaceBatch, layOutInPlace } from './in-place.ts'
import {
  hasRaggedInputs,
  layOut,
  roomFor,
  roomForRows,
  withDivisors,
  viewLayout,
  type ViewedLayout,
} from './layout.ts'
import { gatherBlocks, gatherMailed, gatherPacked, gatherPadded, gatherRagged } from './gather-others.ts'
import type { Batch } from '../schedule/batch.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import { checkElements, isPacked, type ElementType } from '../tensor/tensor.ts'
import type { MailedValue } from '../tensor/values.ts'
import type { Padding } from '../request/padding.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** What slots are made of. */
export interface SlotSource {
  nextSlotId(): number
  acquire(byteLength: number): StagingBuffer
  /** Memory that is of use and not needed; `null` for none, as where this is left out. */
  acquireSpare?(byteLength: number): StagingBuffer | null
  /** Gives memory that nothing holds back to the system. */
  trim(): void
  /** See {@link Carrier.movesFromBytes}. */
  readonly movesFromBytes: number
  /** The CUDA device for which its memory is page-locked; left out for none. */
  readonly device?: number | null
}

/** Most layouts remembered per slot, here and by the worker; models of variable shapes make many. */
const maxLayouts = 512
/** Layouts of batches of so many rows are found without making a key, and stay; less than {@link maxLayouts}. */
const mostByRows = 256
const none: readonly InferRequest[] = []

/** The application's side of one staging slot: where the rows of a batch are gathered and its outputs appear. */
export class StagingSlot {
  readonly id: number
  readonly #metadata: ModelMetadata
  readonly #padding: Padding | null
  readonly #source: SlotSource
  readonly #ragged: boolean
  /** Whether outputs are divided by what others say. */
  readonly #divides: boolean
  #buffer: StagingBuffer | null = null
  /** The memory by which the worker knows the slot; `null` when it does not. */
  #known: SlotMemory | null = null
  /** How often the worker was notified of other memory. A layout from before has to be announced again. */
  #telling = 0
  /** Of fixed shapes, all outputs and few rows, the hot case. It has its full length from the start: where it grew, V8 would throw away what it has compiled. */
  readonly #byRows = Array.from({ length: mostByRows + 1 }, (): ViewedLayout | null => null)
  readonly #byKey = new Map<string, ViewedLayout>()
  #layouts = 0
  /** The batch in flight. */
  batch: Batch | null = null
  /** Its requests in the order of their rows, and what stands in slots of sequences that have none. */
  requests: readonly InferRequest[] = none
  /** All of its rows. */
  rows = 0
  layout: ViewedLayout | null = null
  /** Where its rows were written, if it is run there. */
  inPlace: InPlaceBatch | null = null
  /** Rows of leases in it that lie where they were written, and those that were copied. */
  leasedInPlace = 0
  leasedCopied = 0
  /** When the batch had been gathered, in milliseconds. */
  gatheredAtMs = 0
  /** Whether the batch is run on the second session; what such runs take there, in milliseconds, 0 if that is not known. */
  onSecond = false
  sessionMs = 0
  /** Whether most batches are run on the other session. */
  isUnusual = false
  /** What is known of runs like this one; `null` where there was no choice. */
  runKind: RunKind | null = null

  constructor(source: SlotSource, metadata: ModelMetadata, padding: Padding | null) {
    this.id = source.nextSlotId()
    this.#source = source
    this.#metadata = metadata
    this.#padding = padding
    this.#ragged = hasRaggedInputs(metadata)
    this.#divides = metadata.outputs.some(({ rows }) => rows?.of !== undefined || rows?.counts !== undefined)
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
    return (
      this.layout !== null && this.inPlace === null && this.layout.byteLength >= this.#buffer!.largeFromBytes
    )
  }

  /** Has the worker let go of memory that is not the slot's own, and in which it has no batch. */
  forgetMemory(memory: SlotMemory, executor: Executor): void {
    if (this.#known !== memory) return
    this.forgetLayouts()
    executor.forgetSlot(this.id)
  }

  /** Takes memory that was made ahead. */
  adopt(buffer: StagingBuffer): void {
    this.release()
    this.#buffer = buffer
  }

  /**
   * Finds or makes the layout of a batch and memory for it. A batch that can be run where most of its rows were written is
   * complete there afterwards: the others are copied, and it needs no gathering.
   *
   * @param blocks where rows of it may have been written, and can be run; `null` for nowhere.
   */
  layoutFor(
    batch: readonly InferRequest[],
    rows: number,
    wantedMask: number,
    unpredictable: ReadonlySet<number>,
    blocks: RowBlocks | null = null,
  ): ViewedLayout {
    const outputMask = this.#divides ? withDivisors(this.#metadata.outputs, wantedMask) : wantedMask
    const inPlace =
      blocks === null ? null : this.#layOutInPlace(batch, rows, outputMask, unpredictable, blocks)
    if (inPlace !== null) return inPlace
    const first = batch[0]!
    const hot = first.bucketKey === '' && outputMask === -1 && rows <= mostByRows
    if (hot) return (this.#byRows[rows] ??= this.#make(first, null, rows, outputMask, unpredictable))
    const lengths = first.whole ? null : (this.#padding?.lengths(batch) ?? null)
    const room = this.#ragged ? roomForRows(this.#metadata, batch) : null
    const key = `${rows}|${outputMask}|${first.bucketKey}|${(room ?? lengths)?.join() ?? ''}`
    let layout = this.#byKey.get(key)
    if (layout === undefined)
      this.#byKey.set(key, (layout = this.#make(first, lengths, rows, outputMask, unpredictable, room)))
    return layout
  }

  /** Has a batch run where most of its rows were written, to where the others are copied; `null` where it has to be gathered. */
  #layOutInPlace(
    batch: readonly InferRequest[],
    rows: number,
    outputMask: number,
    unpredictable: ReadonlySet<number>,
    blocks: RowBlocks,
  ): ViewedLayout | null {
    const leased = leasedRows(batch)
    if (leased === 0) return null
    const placed = placeInBlock(batch, rows, this.#source.device ?? null)
    this.leasedCopied = placed === null ? leased : leasedRows(placed.moved.map(({ request }) => request))
    this.leasedInPlace = leased - this.leasedCopied
    if (placed === null) return null
    blocks.seal(placed.block)
    placed.block.hold(placed.first, placed.rows)
    this.inPlace = placed
    gatherMoved(this.#metadata, placed)
    return layOutInPlace(this.#metadata, placed, outputMask, unpredictable)
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
    const layout = layOut(this.#metadata, {
      rows,
      given: request.data,
      rowDims: dims,
      outputMask,
      unpredictable,
      whole: request.whole,
      movesFromBytes: this.#source.movesFromBytes,
      room,
    })
    if (this.#buffer === null || this.#buffer.byteLength < layout.byteLength) this.#grow(layout.byteLength)
    return viewLayout(
      this.#metadata,
      layout,
      this.#buffer!.bytes,
      this.#nextIndex(),
      lengths,
      this.#metadata.maxBatchSize > 0 && !request.whole,
    )
  }

  #padded(dims: readonly (readonly number[])[], lengths: readonly number[]): (readonly number[])[] {
    return dims.map((own, index) => {
      const entry = this.#padding!.byInput[index]
      if (entry === undefined) return own
      const { axis } = this.#padding!.inputs[entry]!
      return own.map((dim, at) => (at === axis ? lengths[entry]! : dim))
    })
  }

  /** Notifies the worker of what it does not know yet of the slot and of `layout`. */
  announce(executor: Executor, sessionId: number, layout: ViewedLayout): void {
    const memory = layout.memory ?? this.#buffer!.memory
    if (this.#known !== memory) {
      executor.defineSlot(this.id, sessionId, memory)
      this.#known = memory
      this.#telling++
    }
    if (layout.toldIn !== this.#telling) {
      const { inputs, outputs } = layout
      executor.defineLayout(this.id, layout.index, { inputs, outputs })
      layout.toldIn = this.#telling
    }
  }

  /** Copies the rows of `batch` into the slot; what cannot lie there is returned to go by message. */
  gather(batch: readonly InferRequest[], layout: ViewedLayout): readonly (MailedValue | null)[] | null {
    const mailed = gatherBatch(this.#metadata, this.#padding, batch, layout)
    this.requests = this.inPlace?.requests ?? batch
    this.layout = layout
    return mailed
  }

  /** The batch in it is over, and touches no memory any more. */
  end(): void {
    if (this.inPlace !== null) this.inPlace.block.drop(this.inPlace.first, this.inPlace.rows)
    this.batch = this.layout = this.inPlace = this.runKind = null
    this.onSecond = this.isUnusual = false
    this.sessionMs = 0
    this.requests = none // which would keep what their callers hold until there is another batch
    this.leasedInPlace = this.leasedCopied = 0
  }

  /** Forgets all layouts, and that a worker knows the slot: for a new thread, after a failure, or when an output has another size than its layout says. */
  forgetLayouts(): void {
    this.#known = null
    this.#byRows.fill(null)
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

  #nextIndex(): number {
    if (this.#layouts < maxLayouts) return this.#layouts++
    // Only one batch is in this slot at a time, and it is not in flight now: any layout that has a key can go.
    const [oldestKey, oldest] = this.#byKey.entries().next().value!
    this.#byKey.delete(oldestKey)
    return oldest.index
  }
}

/** Slots for batches that run, and one that is gathered meanwhile. */
export const slotsFor = (concurrency: number): number => concurrency + 1

/** Copies the rows of `batch` to where `layout` has them; what cannot lie there is returned to go by message. */
function gatherBatch(
  metadata: ModelMetadata,
  padding: Padding | null,
  batch: readonly InferRequest[],
  layout: ViewedLayout,
): readonly (MailedValue | null)[] | null {
  let mailed: (MailedValue | null)[] | null = null
  for (let index = 0; index < layout.inputViews.length; index++) {
    const view = layout.inputViews[index]
    if (view === undefined) continue
    if (view === null) {
      mailed ??= layout.inputViews.map(() => null)
      mailed[index] = gatherMailed(
        metadata.inputs[index]!,
        layout.inputBlocks[index] === 0 ? [batch[0]!] : batch,
        index,
        layout.inputDims[index]!,
      )
    } else if (layout.rowDims?.[index] != null) {
      gatherRagged(batch, index, view, layout.rowDims[index]!)
    } else if (layout.lengths !== null && padding!.byInput[index] !== undefined) {
      gatherPadded(batch, padding!, index, layout.inputDims[index]!, layout.lengths, view)
    } else if (layout.packs && isPacked(metadata.inputs[index]!.type as ElementType)) {
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
