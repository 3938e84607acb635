import type { CalibrationPoint } from './batch-times.ts'
import type { Layout } from './search-space.ts'

/** What a calibration has not found out, in words: layouts that there was no time for, and batches that were not served. */
export function gapsOf(layouts: readonly Layout[], points: readonly CalibrationPoint[]): string[] {
  const named = ({ instances, threads }: Layout) => `${instances} x ${threads} threads`
  const isOf = (layout: Layout) => (point: CalibrationPoint) =>
    point.instances === layout.instances && point.threads === layout.threads
  const missing = layouts.filter((layout) => !points.some(isOf(layout))).map(named)
  const failed = points.flatMap((point) =>
    point.failure === null
      ? []
      : [`${named(point)} with batches of ${point.maxBatchSize} failed: ${point.failure}`],
  )
  return [...failed, ...(missing.length > 0 ? [`no time for ${missing.join(', ')}`] : [])]
}
