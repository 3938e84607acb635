import type { CalibrationPoint } from './calibrate.ts'
import { isOf, type Layout } from './configuration.ts'

/** A batch size in a layout to calibrate. */
export interface PointToCome extends Layout {
  readonly maxBatchSize: number
}

/** First every third batch size is measured. */
const coarseStep = 3
/**
 * Layouts below this fraction of the best are not examined further: first before, then after the coarse pass.
 */
const hopeless = 0.4
const behind = 0.75
/** Larger batches must gain this factor, over three sizes, to be measured. */
const gain = 1.03
/**
 * With more rows a run takes longer, but usually less per row. A throughput below this fraction of that with
 * fewer rows is doubtful.
 */
const doubtful = 0.85

/**
 * The next point to calibrate: first every layout at few batch sizes; then the sizes next to the best one of
 * each layout that is not far behind; then the size above the largest that was nearly as good, as a single
 * measurement may have been disturbed. `null` when all of these are measured.
 *
 * @param mayMeasure whether there is time for a point.
 */
export function nextPoint(
  points: readonly CalibrationPoint[],
  layouts: readonly Layout[],
  batchSizes: readonly number[],
  mayMeasure: (point: PointToCome) => boolean,
): PointToCome | null {
  const looks = layouts.map((layout) => new LayoutLook(layout, points, batchSizes))
  const best = Math.max(0, ...looks.map((look) => look.best))
  const allowed = (look: LayoutLook, index: number): PointToCome | null => {
    const maxBatchSize = batchSizes[index]
    if (maxBatchSize === undefined || look.rates[index] !== undefined || look.hasFailedBelow(index))
      return null
    const point = { instances: look.layout.instances, threads: look.layout.threads, maxBatchSize }
    return mayMeasure(point) ? point : null
  }
  for (let index = 0; index < batchSizes.length; index += coarseStep) {
    const before = index - coarseStep
    const bestBefore = Math.max(0, ...looks.map((look) => look.rates[before] ?? 0))
    for (const look of looks) {
      const isHopeful = index === 0 || (look.rates[before] ?? 0) >= bestBefore * hopeless
      const point = isHopeful && look.isWorthMore(index) ? allowed(look, index) : null
      if (point !== null) return point
    }
  }
  const promising = looks
    .filter((look) => look.best > 0 && look.best >= best * behind)
    .sort((a, b) => b.best - a.best)
  for (const look of promising) {
    const point =
      allowed(look, look.bestIndex - 1) ??
      allowed(look, look.bestIndex + 1) ??
      allowed(look, look.lastNearBestIndex + 1)
    if (point !== null) return point
  }
  return null
}

/**
 * A point above this fraction of the best may be as good as the best, if other load took half of the machine.
 */
const perhapsDisturbed = 0.45

/**
 * The point to measure once more, as a single measurement may have been disturbed: the best of a layout that
 * is behind; a point much worse than with fewer rows; or one worse than with both fewer and more rows. `null`
 * for none.
 */
export function pointToRepeat(
  points: readonly CalibrationPoint[],
  layouts: readonly Layout[],
  mayMeasure: (point: PointToCome) => boolean,
): PointToCome | null {
  const rateOf = ({ measurement }: CalibrationPoint) => measurement?.rowsPerSecond ?? 0
  const best = Math.max(0, ...points.map(rateOf))
  const doubted = layouts.flatMap((layout) => {
    const own = points
      .filter((point) => isOf(layout)(point) && point.measurement !== null)
      .sort((a, b) => a.maxBatchSize - b.maxBatchSize)
    const top = Math.max(0, ...own.map(rateOf))
    const isDoubted = (point: CalibrationPoint, index: number) => {
      const rate = rateOf(point)
      if (rate === top) return top < best * behind
      const [before, after] = [own.slice(0, index), own.slice(index + 1)].map((others) =>
        Math.max(0, ...others.map(rateOf)),
      )
      return rate < doubtful * before! || (top >= best * behind && rate < Math.min(before!, after!))
    }
    return own.filter(isDoubted)
  })
  const once = doubted.filter((point) => point.times === 1 && rateOf(point) >= best * perhapsDisturbed)
  return once.sort((a, b) => rateOf(b) - rateOf(a)).find(mayMeasure) ?? null
}

/** The measurements of one layout. */
class LayoutLook {
  readonly layout: Layout
  /**
   * Rows per second by index of the batch size; `null` for a failed one, a hole for one that was not
   * measured.
   */
  readonly rates: (number | null | undefined)[]

  constructor(layout: Layout, points: readonly CalibrationPoint[], batchSizes: readonly number[]) {
    this.layout = layout
    const own = points.filter(isOf(layout))
    this.rates = batchSizes.map((size) => {
      const point = own.find(({ maxBatchSize }) => maxBatchSize === size)
      return point === undefined ? undefined : (point.measurement?.rowsPerSecond ?? null)
    })
  }

  get best(): number {
    return Math.max(0, ...this.rates.map((rate) => rate ?? 0))
  }

  get bestIndex(): number {
    return this.rates.findIndex((rate) => rate != null && rate === this.best)
  }

  /** The largest size that is about as good as the best one. */
  get lastNearBestIndex(): number {
    return this.rates.findLastIndex((rate) => rate != null && rate >= this.best * doubtful)
  }

  /** A size fails if a smaller one has failed. */
  hasFailedBelow(index: number): boolean {
    return this.rates.some((rate, at) => rate === null && at <= index)
  }

  /** Whether a larger size of the coarse pass may gain something, by the two sizes before it. */
  isWorthMore(index: number): boolean {
    const [before, last] = [this.rates[index - 2 * coarseStep], this.rates[index - coarseStep]]
    return before == null || last == null || last >= before * gain
  }
}
