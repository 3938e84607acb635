/** Longer names are not misspelt. */
const longest = 64

/** The name that was probably meant: at most a third of its letters differ; `null` for none. */
export function nearestName(name: string, names: readonly string[]): string | null {
  if (name.length > longest) return null
  let best: string | null = null
  let least = Math.max(1, Math.floor(name.length / 3)) + 1
  for (const each of names) {
    const distance = editDistance(name.toLowerCase(), each.toLowerCase())
    if (distance >= least) continue
    least = distance
    best = each
  }
  return best
}

/** How many letters to insert, delete, replace or swap with the next. */
function editDistance(from: string, to: string): number {
  let before: number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let index = 0; index < from.length; index++) {
    const next = [index + 1]
    for (let at = 0; at < to.length; at++) {
      const replaced = row[at]! + (from[index] === to[at] ? 0 : 1)
      const isSwap = from[index] === to[at - 1] && from[index - 1] === to[at]
      const swapped = isSwap ? before[at - 1]! + 1 : Infinity
      next.push(Math.min(replaced, row[at + 1]! + 1, next[at]! + 1, swapped))
    }
    before = row
    row = next
  }
  return row[to.length]!
}
