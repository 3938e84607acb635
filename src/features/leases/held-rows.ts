import { invalidArgument } from '../../errors.ts'
import type { HeapItem } from '../../base/indexed-heap.ts'
import type { LeasedRows, RowBlock, RowBlocks } from '../../native/row-blocks.ts'
import type { LentBytes } from '../../native/staging-pool.ts'
import { elementCount, storageOf, type ElementType, type TensorData } from '../../tensor/tensor.ts'

/** An input as a lease has it. */
export interface LeasedInput {
  readonly name: string
  readonly type: ElementType
  /** As a request has them, the batch dimension included. */
  readonly dims: readonly number[]
  /** Elements of one of the rows. */
  readonly rowElements: number
  /** Whether its rows lie one behind the other: else they are counted along another dimension, or share one value. */
  readonly rowsFirst: boolean
  /** Whether a request may leave it out. */
  readonly optional: boolean
}

/** Inputs of a request by name. */
export type LeasedFeeds = Record<
  string,
  { readonly type: ElementType; readonly dims: readonly number[]; readonly data: TensorData }
>

/** What became of a lease. */
export type LeaseEnd = 'inferred' | 'released' | 'expired' | 'dropped' | 'closed'

/**
 * The rows of a lease. Their memory is found when the first of it is written, so that rows lie in the order in which they are
 * ready. What the caller is lent can be taken back: after that its views are empty, and never show what others write there.
 */
export class HeldRows implements LeasedRows, HeapItem {
  heapIndex = 0
  readonly expiresAtMs: number
  readonly maxHoldMs: number
  readonly rows: number
  readonly inputs: readonly LeasedInput[]
  /** How it ended; `null` while it is held. */
  end: LeaseEnd | null = null
  block: RowBlock | null = null
  first = 0
  readonly #blocks: RowBlocks | null
  /** The elements of each input. Nobody but us has those that lie in a block. */
  #data: (TensorData | undefined)[] | null = null
  readonly #views: (TensorData | undefined)[] = []
  readonly #lent: LentBytes[] = []
  /** By input and row, whether something was written there that is the caller's. */
  readonly #written: boolean[][] = []
  #lost = false

  /** @param blocks where rows may lie; `null` for memory of their own. */
  constructor(
    rows: number,
    inputs: readonly LeasedInput[],
    blocks: RowBlocks | null,
    nowMs: number,
    maxHoldMs: number,
  ) {
    this.rows = rows
    this.inputs = inputs
    this.#blocks = blocks
    this.maxHoldMs = maxHoldMs
    this.expiresAtMs = nowMs + maxHoldMs
  }

  /** The caller's view of all rows of an input, zeros where nothing was written. */
  view(index: number): TensorData {
    return (this.#views[index] ??= this.#lend(index))
  }

  /**
   * Has one row of an input written.
   *
   * @throws InferenceError `ERR_INVALID_ARG` when the caller has moved its memory away.
   */
  write(index: number, row: number, write: (elements: TensorData) => void): void {
    const { name, rowElements } = this.inputs[index]!
    const data = this.#elements(index) as Float32Array
    if (data.length === 0 && rowElements > 0)
      throw invalidArgument(
        `input '${name}'`,
        'an array that the lease has still',
        'an empty or detached buffer',
      )
    write(data.subarray(row * rowElements, (row + 1) * rowElements))
    ;(this.#written[index] ??= [])[row] = true
  }

  /** All rows of an input, for whoever writes them all; `null` where they would lie in no block, or memory is short. */
  whole(index: number): TensorData | null {
    this.#data ??= this.#find(true)
    return this.block === null ? null : this.#elements(index)
  }

  /** The feeds of its request, whose data is not the caller's any more. An optional input that was never asked for is left out. */
  take(): LeasedFeeds {
    const feeds: LeasedFeeds = { __proto__: null } as never
    for (const [index, { name, type, dims, optional }] of this.inputs.entries()) {
      if (optional && this.#data?.[index] === undefined) continue
      this.#clear(index)
      feeds[name] = { type, dims, data: this.#ownData(index) }
    }
    this.#takeBack()
    return feeds
  }

  /** The same in copies; its own memory is given back. */
  takeCopies(): LeasedFeeds {
    try {
      const feeds = this.take()
      if (this.block === null) return feeds // nobody else has what is its own
      for (const name of Object.keys(feeds))
        feeds[name] = { ...feeds[name]!, data: (feeds[name]!.data as Float32Array).slice() }
      return feeds
    } finally {
      this.settled()
    }
  }

  /** Nobody uses its memory any more. */
  settled(): void {
    this.#takeBack()
    const { block, first, rows } = this
    if (block === null) return
    this.block = null
    if (this.#lost) block.lose(rows)
    else block.drop(first, rows)
  }

  #elements(index: number): TensorData {
    this.#data ??= this.#find(false)
    return (this.#data[index] ??= this.#make(index))
  }

  /** Finds memory for all inputs. */
  #find(spare: boolean): (TensorData | undefined)[] {
    const taken = this.#blocks?.take(this.rows, spare) ?? null
    if (taken !== null) {
      this.block = taken.block
      this.first = taken.first
    }
    return []
  }

  #make(index: number): TensorData {
    const { name, type, dims } = this.inputs[index]!
    const Storage = storageOf(type)
    if (this.block === null) return ownMemory(name, Storage, dims)
    const { offset, rowBytes } = this.block.layout.inputs[index]!
    return new Storage(this.block.buffer.bytes, offset + this.first * rowBytes, elementCount(dims))
  }

  #lend(index: number): TensorData {
    const data = this.#elements(index)
    this.#clear(index)
    if (this.block === null || data.byteLength === 0) return data
    const lent = this.block.buffer.lend!(data.byteOffset, data.byteLength)
    this.#lent.push(lent)
    return new (storageOf(this.inputs[index]!.type))(lent.bytes)
  }

  /** Rows that nobody has written are zeros, and not what others have left there. */
  #clear(index: number): void {
    const data = this.#elements(index) as Float32Array
    const written = (this.#written[index] ??= [])
    const { rowElements, type } = this.inputs[index]!
    const zero = (type === 'int64' || type === 'uint64' ? 0n : 0) as number
    for (let row = 0; row < this.rows; row++) {
      if (written[row]) continue
      if (this.block !== null) data.fill(zero, row * rowElements, (row + 1) * rowElements)
      written[row] = true
    }
  }

  /** Of memory of its own the caller has the very buffer: it is moved to another. */
  #ownData(index: number): TensorData {
    const data = this.#elements(index)
    if (this.block !== null || this.#views[index] === undefined || data.byteLength === 0) return data
    return (this.#data![index] = new (storageOf(this.inputs[index]!.type))(moved(data)))
  }

  #takeBack(): void {
    for (const lent of this.#lent.splice(0)) {
      // The caller has moved the memory to another buffer, which nobody can take from it.
      if (lent.bytes.byteLength === 0) this.#lost = true
      lent.takeBack()
    }
    if (this.block === null)
      for (const view of this.#views) if (view !== undefined && view.byteLength > 0) moved(view)
    this.#views.length = 0
  }
}

function ownMemory(
  name: string,
  Storage: new (length: number) => TensorData,
  dims: readonly number[],
): TensorData {
  try {
    return new Storage(elementCount(dims))
  } catch (cause) {
    throw invalidArgument(`input '${name}'`, 'rows for which there is memory', dims, { cause })
  }
}

/** Takes the buffer from an array that has all of it. */
function moved({ buffer }: TensorData): ArrayBuffer {
  return structuredClone(buffer as ArrayBuffer, { transfer: [buffer as ArrayBuffer] })
}
