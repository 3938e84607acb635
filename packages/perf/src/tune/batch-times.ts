import type { Measurement } from './measurement.ts'
import type { Layout } from './search-space.ts'

/** What full batches of one size took in one layout, at as many callers as keep all of its instances busy. */
export interface CalibrationPoint extends Layout {
  readonly maxBatchSize: number
  /** What a batch took of an instance's time, with all that is around its run; `null` where it failed. */
  readonly runMs: number | null
  readonly measurement: Measurement | null
  /** Why it failed. */
  readonly failure: string | null
  /** Whether the memory is its own: its process had no larger batches before. */
  readonly isOwnMemory: boolean
  /** How often it was measured; the better one counts. */
  readonly times: number
}

/** What was measured, by layouts. */
export class Calibration {
  readonly points: readonly CalibrationPoint[]

  constructor(points: readonly CalibrationPoint[]) {
    this.points = points
  }

  /** Those of a layout that were measured, ascending by batch size. */
  of({ instances, threads }: Layout): MeasuredPoint[] {
    const own = this.points.filter((point) => point.instances === instances && point.threads === threads)
    return own
      .filter((point): point is MeasuredPoint => point.runMs !== null)
      .sort((a, b) => a.maxBatchSize - b.maxBatchSize)
  }

  /** Layouts in which something was measured. */
  get layouts(): Layout[] {
    const keys = new Set(
      this.points
        .filter(({ runMs }) => runMs !== null)
        .map(({ instances, threads }) => `${instances} ${threads}`),
    )
    return [...keys].map((key) => {
      const [instances, threads] = key.split(' ').map(Number) as [number, number]
      return { instances, threads }
    })
  }

  /** Of a batch, or of the nearest size by its rows; `null` for a layout of which nothing is known. */
  runMs(layout: Layout, maxBatchSize: number): number | null {
    const points = this.of(layout)
    const above = points.find((point) => point.maxBatchSize >= maxBatchSize)
    if (above !== undefined && above.maxBatchSize === maxBatchSize) return above.runMs
    const below = points.findLast((point) => point.maxBatchSize < maxBatchSize)
    if (below === undefined) return above?.runMs ?? null
    return (below.runMs * Math.max(1, maxBatchSize)) / Math.max(1, below.maxBatchSize)
  }
}

interface MeasuredPoint extends CalibrationPoint {
  readonly runMs: number
  readonly measurement: Measurement
}
