import type { LevelResult } from '../result.ts'

/** Latencies from one bound to the next. */
export interface Bins {
  /** Upper bounds, each the same factor above the one before. */
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  /** How many of another histogram are in each. */
  countsOf(histogram: LevelResult['latencyHistogram']): number[]
  /** Where a value lies among the bins, counted from the middle of the first. */
  placeOf(us: number): number
}

const mostBins = 40
/** A narrower bin would show how the latencies were rounded. */
const leastFactor = 2 ** (1 / 4)

/** Measured latencies in at most 40 bins of the same width on a logarithmic axis, without gaps; none where nothing was measured. */
export function binsOf(histogram: LevelResult['latencyHistogram']): Bins {
  const counted = countedIn(histogram)
  if (counted.length === 0) return { bounds: [], counts: [], countsOf: () => [], placeOf: () => NaN }
  const smallest = counted[0]!.upToUs
  const largest = counted.at(-1)!.upToUs
  const factor = Math.max(leastFactor, (largest / smallest) ** (1 / (mostBins - 1)))
  const binOf = (us: number) => Math.max(0, Math.ceil(Math.log(us / smallest) / Math.log(factor) - 1e-9))
  const bounds = Array.from({ length: binOf(largest) + 1 }, (_, index) => smallest * factor ** index)
  const countsOf = (other: LevelResult['latencyHistogram']) => {
    const counts = bounds.map(() => 0)
    for (const { upToUs, count } of countedIn(other))
      counts[Math.min(bounds.length - 1, binOf(upToUs))]! += count
    return counts
  }
  return {
    bounds,
    counts: countsOf(histogram),
    countsOf,
    placeOf: (us) =>
      Math.min(bounds.length - 0.5, Math.max(-0.5, Math.log(us / smallest) / Math.log(factor) + 0.5)),
  }
}

function countedIn(histogram: LevelResult['latencyHistogram']): { upToUs: number; count: number }[] {
  return histogram
    .filter(({ upToUs, count }) => count > 0 && Number.isFinite(upToUs))
    .map(({ upToUs, count }) => ({ upToUs: Math.max(upToUs, 0.001), count }))
}
