/** Places of the `count` highest scores in `[start, end)`, the highest first; of two with one score the first comes first. */
export function highest(scores: ArrayLike<number>, start: number, end: number, count: number): number[] {
  const best: number[] = []
  for (let at = start; at < end; at++) {
    const score = scores[at]!
    if (best.length === count && !(score > scores[best.at(-1)!]!)) continue
    let place = best.length
    while (place > 0 && score > scores[best[place - 1]!]!) place--
    best.splice(place, 0, at)
    if (best.length > count) best.pop()
  }
  return best
}
