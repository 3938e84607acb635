/** How many instances a group has, and between which numbers it may have them. */
export interface Divided {
  readonly count: number
  readonly minInstances: number
  readonly maxInstances: number
}

/**
 * How many instances each of several like groups is to have when they have `total` in all: the present ones, and one after the other
 * more in the first that may have more, or fewer in the last that may have fewer; where none may, in the last, or the first.
 */
export function divide(groups: readonly Divided[], total: number): number[] {
  const counts = groups.map(({ count }) => count)
  const sum = () => counts.reduce((all, count) => all + count, 0)
  while (sum() < total) {
    const first = groups.findIndex(({ maxInstances }, index) => counts[index]! < maxInstances)
    counts[first === -1 ? counts.length - 1 : first]!++
  }
  while (sum() > total) {
    const last = groups.findLastIndex(({ minInstances }, index) => counts[index]! > minInstances)
    const most = counts.findIndex((count) => count > 0)
    counts[last === -1 ? most : last]!--
  }
  return counts
}
