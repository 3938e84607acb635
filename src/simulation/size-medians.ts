import { median } from '../median.ts'

/** What runs usually take, by their rows: on the lines between the sizes that were seen, in proportion above the largest. */
export class SizeMedians {
  readonly #seen: readonly (readonly [rows: number, ms: number])[]
  readonly #byRows: (number | undefined)[] = []

  /** @param msByRows at least one size. */
  constructor(msByRows: ReadonlyMap<number, readonly number[]>) {
    this.#seen = [...msByRows].map(([rows, ms]) => [rows, median(ms)] as const).sort(([a], [b]) => a - b)
  }

  of(rows: number): number {
    return (this.#byRows[rows] ??= this.#reckon(rows))
  }

  #reckon(rows: number): number {
    const seen = this.#seen
    const above = seen.findIndex(([size]) => size >= rows)
    if (above === 0) return seen[0]![1]
    if (above === -1) return (seen.at(-1)![1] * rows) / seen.at(-1)![0]
    const [lowRows, lowMs] = seen[above - 1]!
    const [highRows, highMs] = seen[above]!
    return lowMs + ((highMs - lowMs) * (rows - lowRows)) / (highRows - lowRows)
  }
}
