/** A count and the nanoseconds it took in all; Triton's `StatisticDuration`. */
export interface StatisticDuration {
  /** How many there were. */
  readonly count: number
  /** What they took in all, in nanoseconds. */
  readonly ns: number
}

/** The same of milliseconds. */
export function durationOf(count: number, ms: number): StatisticDuration {
  return { count, ns: Math.round(ms * 1e6) }
}
