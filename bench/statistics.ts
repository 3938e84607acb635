/** The value below which a fraction `q` of `values` lies; nearest rank. */
export function percentile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? NaN
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** What is in the middle by `valueOf`; of two the one with the lower value. */
export function middleBy<T>(items: readonly T[], valueOf: (item: T) => number): T | undefined {
  return items.toSorted((a, b) => valueOf(a) - valueOf(b))[Math.ceil(items.length / 2) - 1]
}

/** Slope of the least-squares line through the points. */
export function slope(points: readonly { x: number; y: number }[]): number {
  const meanX = points.reduce((sum, { x }) => sum + x, 0) / points.length
  const meanY = points.reduce((sum, { y }) => sum + y, 0) / points.length
  const covariance = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0)
  return covariance / points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0)
}

export function round(value: number, digits = 2): number {
  return Number(value.toFixed(digits))
}
