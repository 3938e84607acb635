/** Names longer than this are near none: comparing takes the time of both lengths. */
const longest = 40

/** Of the names that there are, those that one which is not may have been meant to be: the nearest first, three at most. */
export function nearNames(name: string, known: readonly string[]): string[] {
  if (name.length > longest) return []
  const near = known.map((other) => ({ other, distance: distanceOf(name.toLowerCase(), other.toLowerCase()) }))
  return near
    .filter(({ other, distance }) => distance <= Math.min(name.length, other.length) / 2)
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ other }) => other)
}

/** How many characters have to be put in, left out or changed to make `b` of `a`. */
function distanceOf(a: string, b: string): number {
  let before = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let row = 1; row <= a.length; row++) {
    const here = [row]
    for (let column = 1; column <= b.length; column++) {
      const changed = before[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      here.push(Math.min(changed, before[column]! + 1, here[column - 1]! + 1))
    }
    before = here
  }
  return before[b.length]!
}
