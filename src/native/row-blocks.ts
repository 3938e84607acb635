import type { Clock } from '../base/clock.ts'
import type { RowBlock } from './row-block.ts'

/** How long a block is kept that nobody uses, in milliseconds. */
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
  /** Those that nobody uses: the one that was used last is used next, so the first have been of no use for longest. */
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

  /** Keeps nothing that nobody uses, from now on. */
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
