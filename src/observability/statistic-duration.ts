/** A count and the nanoseconds it took in all; Triton's `StatisticDuration`. */
export interface StatisticDuration {
  readonly count: number
  readonly ns: number
}

/** The same of milliseconds. */
export function durationOf(count: number, ms: number): StatisticDuration {
  return { count, ns: Math.round(ms * 1e6) }
}
