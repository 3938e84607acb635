import { invalidArgument } from '../../errors.ts'
import type { HeapItem } from '../../base/indexed-heap.ts'
import type { LeasedRows, RowBlock, RowBlocks } from '../../native/row-blocks.ts'
import type { LentBytes } from '../../native/staging-pool.ts'
import { elementCount, storageOf, type ElementType, type TensorData } from '../../tensor/tensor.ts'

/** An input of a lease. */
export interface LeasedInput {
  readonly name: string
  readonly type: ElementType
  /** Its dims in a request, with the batch dimension. */
  readonly dims: readonly number[]
  /** Elements per row. */
  readonly rowElements: number
  /**
   * Whether its rows are contiguous. Otherwise they are counted along another dimension, or share one value.
   */
  readonly rowsFirst: boolean
  /** Whether a request may omit it. */
  readonly optional: boolean
}

/** Inputs of a request, by name. */
type LeasedFeeds = Record<
  string,
  { readonly type: ElementType; readonly dims: readonly number[]; readonly data: TensorData }
>

/** How a lease ended. */
export type LeaseEnd = 'inferred' | 'released' | 'expired' | 'dropped' | 'closed'

/**
 * The rows of a lease. Their memory is allocated at the first write, so that rows lie in the order in which
 * they are ready. Memory lent to the caller can be revoked: its views are then empty, and never show data of
 * later users.
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
  /** The elements of each input. Elements in a block are accessible to the engine only. */
  #data: (TensorData | undefined)[] | null = null
  readonly #views: (TensorData | undefined)[] = []
  readonly #lent: LentBytes[] = []
  /** Whether the caller has written, by input and row. */
  readonly #written: boolean[][] = []
  #lost = false

  /** @param blocks memory for the rows; `null` for memory of their own. */
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

  /** The caller's view of all rows of an input. Unwritten elements are zero. */
  view(index: number): TensorData {
    return (this.#views[index] ??= this.#lend(index))
  }

  /**
   * Calls `write` for one row of an input.
   *
   * @throws InferenceError `ERR_INVALID_ARG` if the caller has transferred its memory.
   */
  write(index: number, row: number, write: (elements: TensorData) => void): void {
    const { name, rowElements } = this.inputs[index]!
    const data = this.#elements(index) as Float32Array
    if (data.length === 0 && rowElements > 0)
      throw invalidArgument(
        `input '${name}'`,
        'an array of the lease that is still attached',
        'an empty or detached buffer',
      )
    write(data.subarray(row * rowElements, (row + 1) * rowElements))
    ;(this.#written[index] ??= [])[row] = true
  }

  /**
   * All rows of an input, for a writer that fills them all; `null` if no block is available for them, or
   * memory is short.
   */
  whole(index: number): TensorData | null {
    this.#data ??= this.#find(true)
    return this.block === null ? null : this.#elements(index)
  }

  /**
   * The feeds of the lease's request. The caller loses access to the data. Optional inputs that were never
   * used are left out.
   */
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

  /** The feeds as copies; frees the memory of the lease's own. */
  takeCopies(): LeasedFeeds {
    try {
      const feeds = this.take()
      if (this.block === null) return feeds // memory of its own is not shared
      for (const name of Object.keys(feeds))
        feeds[name] = { ...feeds[name]!, data: (feeds[name]!.data as Float32Array).slice() }
      return feeds
    } finally {
      this.settled()
    }
  }

  /** Frees the memory: the request has settled. */
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

  /** Allocates memory for all inputs. */
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

  /** Zeroes rows that were not written, so that data of earlier users does not leak. */
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

  /** For memory of its own the caller has the buffer itself: transfers it to a new one. */
  #ownData(index: number): TensorData {
    const data = this.#elements(index)
    if (this.block !== null || this.#views[index] === undefined || data.byteLength === 0) return data
    return (this.#data![index] = new (storageOf(this.inputs[index]!.type))(moved(data)))
  }

  #takeBack(): void {
    for (const lent of this.#lent.splice(0)) {
      // The caller has transferred the memory to another buffer, which cannot be revoked.
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
    throw invalidArgument(`input '${name}'`, 'rows that fit into memory', dims, { cause })
  }
}

/** Transfers the buffer of an array that covers all of it. */
function moved({ buffer }: TensorData): ArrayBuffer {
  return structuredClone(buffer as ArrayBuffer, { transfer: [buffer as ArrayBuffer] })
}
