/** The largest difference of numbers to those that are expected, to the largest of these. */
export function largestDifference(found: readonly number[], expected: readonly number[]): number {
  if (found.length !== expected.length) return Infinity
  const largest = Math.max(...expected.map(Math.abs))
  const difference = Math.max(...found.map((value, index) => Math.abs(value - expected[index]!)))
  return Number.isNaN(difference) ? Infinity : difference / (largest || 1)
}
