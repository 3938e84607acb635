import type { StagingBuffer } from './staging-pool.ts'

/** Where the rows of an input or output lie in a block, one after the other. In bytes. */
export interface RowPlaces {
  readonly offset: number
  readonly rowBytes: number
}

/** How a block is divided. */
export interface BlockLayout {
  /** Rows that there is room for. */
  readonly rows: number
  readonly byteLength: number
  readonly inputs: readonly RowPlaces[]
  /** `null` for an output whose size only a run tells. */
  readonly outputs: readonly (RowPlaces | null)[]
}

/** Rows that a caller wrote, or writes, until the request that is made of them is settled. */
export interface LeasedRows {
  /** Where they are; `null` for rows in memory of their own. */
  readonly block: RowBlock | null
  /** The first of them in the block. */
  readonly first: number
  readonly rows: number
  /** Their request is settled. */
  settled(): void
}

/**
 * Memory for the rows of a batch, inputs and outputs, of which parts can be run where they were written. Whoever may touch rows
 * holds them: a lease until its request is settled, a batch until its run is over. Nobody is given rows that anybody holds.
 */
export class RowBlock {
  readonly layout: BlockLayout
  readonly buffer: StagingBuffer
  /** The CUDA device for which its memory is page-locked; `null` for none. */
  readonly device: number | null
  /** Told when nobody holds any of its rows any more. */
  onUnused: () => void = () => {}
  readonly #holders: Uint16Array // by row
  #next = 0
  #held = 0
  #lost = false

  constructor(layout: BlockLayout, buffer: StagingBuffer, device: number | null) {
    this.layout = layout
    this.buffer = buffer
    this.device = device
    this.#holders = new Uint16Array(layout.rows)
  }

  /** Whether somebody may have some of its memory for good: it is not to be used again. */
  get lost(): boolean {
    return this.#lost
  }

  /** Whether nobody holds any of its rows. */
  get unused(): boolean {
    return this.#held === 0
  }

  /** How many hold a row. */
  holdersOf(row: number): number {
    return this.#holders[row]!
  }

  /** Takes rows that nobody had since all were free; returns the first of them, which is held then, or -1 where there is no room. */
  take(rows: number): number {
    const first = this.#next
    if (first + rows > this.layout.rows) return -1
    this.#next += rows
    this.hold(first, rows)
    return first
  }

  /** No further rows are to be taken until all are free. */
  seal(): void {
    this.#next = this.layout.rows
  }

  hold(first: number, rows: number): void {
    for (let row = first; row < first + rows; row++) this.#holders[row]!++
    this.#held += rows
  }

  /** The end of a {@link hold}. */
  drop(first: number, rows: number): void {
    for (let row = first; row < first + rows; row++) this.#holders[row]!--
    this.#release(rows)
  }

  /** The end of a {@link hold} by which somebody has got hold of the memory itself: nothing is ever written there again. */
  lose(rows: number): void {
    this.#lost = true
    this.seal()
    this.#release(rows)
  }

  #release(rows: number): void {
    this.#held -= rows
    if (this.#held > 0) return
    if (!this.#lost) this.#next = 0
    this.onUnused()
  }
}
