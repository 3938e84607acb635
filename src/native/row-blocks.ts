import type { Clock } from '../base/clock.ts'
import type { StagingBuffer } from './staging-pool.ts'

/** How long an unused block is kept, in milliseconds. */
const keptMs = 2000

/** For how long no spare block is asked for once memory was short: to find that out takes longer than to copy a row, in milliseconds. */
const shortMs = 20

/** The blocks of one model: one is being filled, others run or are written still, and some are kept for what comes. */
export class RowBlocks {
  /** Rows that ran where they were written, and rows that were copied to their batch. */
  readonly rows = { inPlace: 0, copied: 0 }
  readonly #clock: Clock
  readonly #make: (spare: boolean) => RowBlock | null
  readonly #needed: () => number
  readonly #most: number
  readonly #forget: (block: RowBlock) => void
  readonly #blocks = new Set<RowBlock>()
  /** Unused blocks. The one that was used last is used next, so the first have been unused for longest. */
  readonly #spare: { readonly block: RowBlock; readonly sinceMs: number }[] = []
  #filling: RowBlock | null = null
  #timer: unknown = null
  #shortUntilMs = -Infinity
  #closed = false

  /**
   * @param make gives another block; `null` where blocks are of no use, and for a `spare` one where memory is short.
   * @param needed how many runs have use for at the same time.
   * @param most how many there may be where memory is not short, for requests that wait; never less than are needed.
   * @param forget has everybody let go of the memory of a block, which is given back.
   */
  constructor(
    clock: Clock,
    make: (spare: boolean) => RowBlock | null,
    needed: () => number,
    most: number,
    forget: (block: RowBlock) => void,
  ) {
    this.#clock = clock
    this.#make = make
    this.#needed = needed
    this.#most = most
    this.#forget = forget
  }

  /** How many blocks there are. */
  get count(): number {
    return this.#blocks.size
  }

  /**
   * Takes rows of the block that is being filled; `null` where no block has room.
   *
   * @param spare whether they can be done without, if memory is short.
   */
  take(rows: number, spare = false): { readonly block: RowBlock; readonly first: number } | null {
    for (;;) {
      const block = (this.#filling ??= this.#spare.pop()?.block ?? this.#add(spare))
      if (block === null) return null
      const first = block.take(rows)
      if (first !== -1) return { block, first }
      this.#filling = null // its holders have it
      if (!block.unused) continue
      this.#keep(block)
      return null // none has room for so many
    }
  }

  /** A batch was made of rows of a block: what is taken from now on is for another. */
  seal(block: RowBlock): void {
    block.seal()
    if (this.#filling === block) this.#filling = null
  }

  /** A batch was run. */
  ran({
    leasedInPlace,
    leasedCopied,
  }: {
    readonly leasedInPlace: number
    readonly leasedCopied: number
  }): void {
    this.rows.inPlace += leasedInPlace
    this.rows.copied += leasedCopied
  }

  /** Keeps no unused block from now on. */
  close(): void {
    this.#closed = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    for (const { block } of this.#spare.splice(0)) this.#giveBack(block)
  }

  #add(spare: boolean): RowBlock | null {
    const needed = this.#needed()
    const { size } = this.#blocks
    if (this.#closed || size >= Math.max(needed, this.#most)) return null
    const isSpare = spare || size >= needed
    if (isSpare && this.#clock.nowMs() < this.#shortUntilMs) return null
    const block = this.#make(isSpare)
    if (block === null) {
      if (isSpare) this.#shortUntilMs = this.#clock.nowMs() + shortMs
      return null
    }
    block.onUnused = () => this.#keep(block)
    this.#blocks.add(block)
    return block
  }

  #keep(block: RowBlock): void {
    if (this.#filling === block) this.#filling = null
    if (this.#closed || block.lost) return this.#giveBack(block)
    this.#spare.push({ block, sinceMs: this.#clock.nowMs() })
    this.#timer ??= this.#clock.setTimer(this.#look, keptMs)
  }

  /** One timer, however often blocks become free. */
  readonly #look = (): void => {
    this.#timer = null
    const keptSinceMs = this.#clock.nowMs() - keptMs
    while (this.#spare.length > 0 && this.#spare[0]!.sinceMs <= keptSinceMs)
      this.#giveBack(this.#spare.shift()!.block)
    if (this.#spare.length > 0)
      this.#timer = this.#clock.setTimer(this.#look, this.#spare[0]!.sinceMs - keptSinceMs)
  }

  #giveBack(block: RowBlock): void {
    this.#blocks.delete(block)
    this.#forget(block)
    block.buffer.release()
  }
}

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
  /** `null` for an output whose size only a run can determine. */
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
 * Memory for the rows of a batch, inputs and outputs, of which parts can be run where they were written. What may touch rows
 * holds them: a lease until its request is settled, a batch until its run is over. Rows that are held are never given away.
 */
export class RowBlock {
  readonly layout: BlockLayout
  readonly buffer: StagingBuffer
  /** The CUDA device for which its memory is page-locked; `null` for none. */
  readonly device: number | null
  /** Called when none of its rows is held any more. */
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

  /** Whether some of its memory may have leaked to a caller for good: it must not be used again. */
  get lost(): boolean {
    return this.#lost
  }

  /** Whether none of its rows is held. */
  get unused(): boolean {
    return this.#held === 0
  }

  /** How many hold a row. */
  holdersOf(row: number): number {
    return this.#holders[row]!
  }

  /** Takes and holds rows that were not taken since all were free; returns the first of them, or -1 when there is no room. */
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

  /** The end of a {@link hold} during which a caller got the memory itself: nothing is ever written there again. */
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
