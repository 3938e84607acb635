/** Something that takes a stretch of time. */
export interface Stretch {
  readonly startNs: number
  readonly endNs: number
}

/** Two threads' clocks may be so far apart. */
const skewNs = 20_000

/**
 * Distributes stretches of time over as few lanes as they need, so that in each one comes after the other. One that begins a moment
 * before the last has ended begins with its end.
 */
export function inLanes<T extends Stretch>(stretches: readonly T[]): (T & { readonly lane: number })[] {
  const ends: number[] = []
  return stretches
    .toSorted((a, b) => a.startNs - b.startNs || a.endNs - b.endNs)
    .map((stretch) => {
      let lane = ends.findIndex((endNs) => endNs <= stretch.startNs)
      if (lane === -1)
        lane = ends.findIndex((endNs) => endNs - skewNs <= stretch.startNs && endNs <= stretch.endNs)
      if (lane === -1) lane = ends.length
      const startNs = Math.max(stretch.startNs, ends[lane] ?? 0)
      const endNs = Math.max(startNs, stretch.endNs)
      ends[lane] = endNs
      return { ...stretch, startNs, endNs, lane }
    })
}
