import type { Clock } from '../clock.ts'
import type { RowBlock } from './row-block.ts'

/** How long a block is kept that nobody uses, in milliseconds. */
const keptMs = 2000

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
  readonly #spare: RowBlock[] = []
  #filling: RowBlock | null = null
  #usedAtMs = 0
  #timer: unknown = null
  #closed = false

  /**
   * @param make gives another block; `null` where blocks are of no use, and for a `spare` one where memory is short.
   * @param needed how many runs have use for at the same time.
   * @param most how many there may be where memory is not short, for requests that wait; never less than are needed.
   * @param forget has everybody let go of the memory of a block, which is given back.
   */
  constructor(clock: Clock, make: (spare: boolean) => RowBlock | null, needed: () => number, most: number, forget: (block: RowBlock) => void) {
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
      const block = (this.#filling ??= this.#spare.pop() ?? this.#add(spare))
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

  /** Keeps nothing that nobody uses, from now on. */
  close(): void {
    this.#closed = true
    if (this.#filling?.unused) this.#spare.push(this.#filling)
    this.#filling = null
    this.#giveBack()
  }

  #add(spare: boolean): RowBlock | null {
    const needed = this.#needed()
    const { size } = this.#blocks
    if (this.#closed || size >= Math.max(needed, this.#most)) return null
    const block = this.#make(spare || size >= needed)
    if (block === null) return null
    block.onUnused = () => this.#unused(block)
    this.#blocks.add(block)
    return block
  }

  #unused(block: RowBlock): void {
    if (block === this.#filling && !block.lost) return this.#watch()
    if (block === this.#filling) this.#filling = null
    this.#keep(block)
  }

  #keep(block: RowBlock): void {
    this.#spare.push(block)
    if (this.#closed || block.lost) this.#giveBack()
    else this.#watch()
  }

  /** One timer, however often blocks become free: it looks whether any has been of use meanwhile. */
  #watch(): void {
    this.#usedAtMs = this.#clock.nowMs()
    this.#timer ??= this.#clock.setTimer(this.#look, keptMs)
  }

  readonly #look = (): void => {
    this.#timer = null
    const leftMs = this.#usedAtMs + keptMs - this.#clock.nowMs()
    if (leftMs > 0) {
      this.#timer = this.#clock.setTimer(this.#look, leftMs)
      return
    }
    if (this.#filling?.unused) {
      this.#spare.push(this.#filling)
      this.#filling = null
    }
    this.#giveBack()
  }

  #giveBack(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    for (const block of this.#spare.splice(0)) {
      this.#blocks.delete(block)
      this.#forget(block)
      block.buffer.release()
    }
  }
}
