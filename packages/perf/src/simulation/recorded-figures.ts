import type { Arrival } from 'zerohop/internals'

/** What was measured when a recording was made; latencies are `null` when nothing was answered. */
export interface RecordedFigures {
  readonly requests: number
  readonly answered: number
  readonly p50Ms: number | null
  readonly p90Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
  readonly throughputPerSecond: number
  readonly rowsPerSecond: number
  /** `null` where no runs were recorded. */
  readonly meanBatchRows: number | null
}

/** Sums up a recording, as a simulation is summed up. */
export function recordedFigures(arrivals: readonly Arrival[]): RecordedFigures {
  const answered = arrivals.filter(({ latencyUs }) => latencyUs !== undefined)
  const sortedMs = Float64Array.from(answered, ({ latencyUs }) => latencyUs! / 1000).sort()
  const quantile = (q: number) => sortedMs[Math.max(0, Math.ceil(q * sortedMs.length) - 1)] ?? null
  const lastUs = answered.reduce((last, { atUs, latencyUs }) => Math.max(last, atUs + latencyUs!), 0)
  const perSecond = (count: number) => (lastUs === 0 ? 0 : (count * 1e6) / lastUs)
  const runs = arrivals.flatMap(({ runs = [] }) => runs)
  return {
    requests: arrivals.length,
    answered: answered.length,
    p50Ms: quantile(0.5),
    p90Ms: quantile(0.9),
    p95Ms: quantile(0.95),
    p99Ms: quantile(0.99),
    maxMs: quantile(1),
    throughputPerSecond: perSecond(answered.length),
    rowsPerSecond: perSecond(answered.reduce((sum, { rows }) => sum + rows, 0)),
    meanBatchRows: runs.length === 0 ? null : runs.reduce((sum, { rows }) => sum + rows, 0) / runs.length,
  }
}
