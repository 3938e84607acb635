/** Runs of one size, or bars of anything by rows. */
interface Total {
  sum: number
  count: number
}

/** What runs take on average, by their rows: on the lines between the sizes that were seen, in proportion above the largest. */
export class SizeMeans {
  readonly #totals = new Map<number, Total>()
  readonly #means: (number | undefined)[] = []
  #sizes: number[] = []

  add(rows: number, ms: number): void {
    const total = this.#totals.get(rows)
    if (total === undefined) {
      this.#totals.set(rows, { sum: ms, count: 1 })
      this.#sizes = [...this.#totals.keys()].sort((a, b) => a - b)
    } else {
      total.sum += ms
      total.count++
    }
    this.#means.length = 0
  }

  of(rows: number): number {
    return (this.#means[rows] ??= this.#reckon(rows))
  }

  #reckon(rows: number): number {
    const sizes = this.#sizes
    const above = sizes.findIndex((size) => size >= rows)
    if (above === 0) return this.#seen(sizes[0]!)
    if (above === -1) return (this.#seen(sizes.at(-1)!) * rows) / sizes.at(-1)!
    const [low, high] = [sizes[above - 1]!, sizes[above]!]
    return this.#seen(low) + ((this.#seen(high) - this.#seen(low)) * (rows - low)) / (high - low)
  }

  #seen(rows: number): number {
    const { sum, count } = this.#totals.get(rows)!
    return sum / count
  }
}
