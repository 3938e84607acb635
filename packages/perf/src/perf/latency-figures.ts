import type { DurationHistogram } from './load/duration-histogram.ts'
import type { LatencyFigures } from './result.ts'

/** What is told of many durations. */
export function figuresOf(durations: DurationHistogram): LatencyFigures {
  return {
    averageUs: durations.averageUs,
    standardDeviationUs: durations.standardDeviationUs,
    p50Us: durations.quantileUs(0.5),
    p90Us: durations.quantileUs(0.9),
    p95Us: durations.quantileUs(0.95),
    p99Us: durations.quantileUs(0.99),
    p999Us: durations.quantileUs(0.999),
    maxUs: durations.maxUs,
  }
}
