import type { LevelResult } from '../result.ts'

const always = { 50: 'p50Us', 90: 'p90Us', 95: 'p95Us', 99: 'p99Us' } as const

/** The percentiles that are told, ascending, with the user's own among them. */
export function percentilesOf(own: number | undefined): number[] {
  const numbers = new Set(Object.keys(always).map(Number))
  if (own !== undefined) numbers.add(own)
  return [...numbers].toSorted((a, b) => a - b)
}

/** One of them. */
export function percentileUs({ latency, percentile }: LevelResult, number: number): number {
  return percentile?.percentile === number ? percentile.us : latency[always[number as keyof typeof always]]
}
