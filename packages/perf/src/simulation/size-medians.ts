import { median } from 'zerohop/internals'

/** What fewer runs of a size took is no measure of it: one of them may have been held up. */
export const fewestRuns = 3

/** What runs of a size took, and how many there were. */
interface Seen {
  readonly rows: number
  readonly ms: number
  readonly runs: number
}

/**
 * What runs usually take, by their rows: on the lines between the sizes that ran often enough to tell, and above them on the line
 * through all of these, in which each counts as often as it ran. Never less for more rows. Where one size tells, others are in proportion.
 */
export class SizeMedians {
  readonly #seen: readonly Seen[]
  readonly #msPerRow: number
  readonly #byRows: (number | undefined)[] = []

  /** @param msByRows at least one size. */
  constructor(msByRows: ReadonlyMap<number, readonly number[]>) {
    const all = [...msByRows]
      .map(([rows, ms]): Seen => ({ rows, ms: median(ms), runs: ms.length }))
      .sort((a, b) => a.rows - b.rows)
    const telling = all.filter(({ runs }) => runs >= fewestRuns)
    this.#seen = rising(telling.length > 0 ? telling : all)
    // With one size that tells, the others say at least whether more rows take longer.
    this.#msPerRow = slopeOf(telling.length === 1 ? rising(all) : this.#seen, this.#seen.at(-1)!)
  }

  of(rows: number): number {
    return (this.#byRows[rows] ??= this.#reckon(rows))
  }

  #reckon(rows: number): number {
    const seen = this.#seen
    const above = seen.findIndex((size) => size.rows >= rows)
    if (above === 0) return seen[0]!.ms
    if (above === -1) return seen.at(-1)!.ms + this.#msPerRow * (rows - seen.at(-1)!.rows)
    const low = seen[above - 1]!
    const high = seen[above]!
    return low.ms + ((high.ms - low.ms) * (rows - low.rows)) / (high.rows - low.rows)
  }
}

/** Neighbours of which the larger took less get what both took on average, by their runs. */
function rising(seen: readonly Seen[]): Seen[] {
  const levels: { ms: number; runs: number; sizes: number }[] = []
  for (const { ms, runs } of seen) {
    let level = { ms, runs, sizes: 1 }
    for (let before = levels.at(-1); before !== undefined && before.ms > level.ms; before = levels.at(-1)) {
      levels.pop()
      const both = before.runs + level.runs
      level = {
        ms: (before.ms * before.runs + level.ms * level.runs) / both,
        runs: both,
        sizes: before.sizes + level.sizes,
      }
    }
    levels.push(level)
  }
  const times = levels.flatMap(({ ms, sizes }) => Array.from({ length: sizes }, () => ms))
  return seen.map(({ rows, runs }, index) => ({ rows, runs, ms: times[index]! }))
}

/** Of the line with the least squares; it rises, and begins at no time or more for no rows. */
function slopeOf(seen: readonly Seen[], last: Seen): number {
  const inProportion = last.ms / last.rows
  const runs = seen.reduce((sum, size) => sum + size.runs, 0)
  const meanOf = (read: (size: Seen) => number) =>
    seen.reduce((sum, size) => sum + read(size) * size.runs, 0) / runs
  const meanRows = meanOf(({ rows }) => rows)
  const spread = meanOf(({ rows }) => (rows - meanRows) ** 2)
  if (spread === 0) return inProportion
  return Math.min(inProportion, Math.max(0, meanOf(({ rows, ms }) => (rows - meanRows) * ms) / spread))
}
