/** Names longer than this are nobody's slip of the pen. */
const longest = 64

/** The name that was most likely meant: one that is some letters away, at most a third of them; `null` for none. */
export function nearest(name: string, names: readonly string[]): string | null {
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

/** How many letters have to be put in, taken out or replaced. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let index = 0; index < from.length; index++) {
    const next = [index + 1]
    for (let at = 0; at < to.length; at++) {
      const replaced = row[at]! + (from[index] === to[at] ? 0 : 1)
      next.push(Math.min(replaced, row[at + 1]! + 1, next[at]! + 1))
    }
    row = next
  }
  return row[to.length]!
}
