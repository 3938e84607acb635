import type { Interval, SimulationRecord } from './simulation-record.ts'

/** What a simulation found. Latencies are `null` when nothing was answered. */
export interface SimulationResult {
  readonly targetMs: number
  /** Every one of them was answered, refused when it came, or dropped from the queue. */
  readonly requests: number
  readonly answered: number
  readonly refused: number
  readonly dropped: number
  /** Answered, but not within the target. */
  readonly late: number
  readonly meanMs: number | null
  readonly p50Ms: number | null
  readonly p90Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
  /** Answers. */
  readonly throughputPerSecond: number
  /** Rows of these. */
  readonly rowsPerSecond: number
  /** Answers within the target. */
  readonly goodputPerSecond: number
  /** Answers within the target, of all requests. */
  readonly goodputShare: number
  readonly meanBatchRows: number
  /** Runs by rows. */
  readonly batches: Readonly<Record<number, number>>
  /** What a batch costs on average and at most, and which part of it is padding; `null` where nothing is said of costs. */
  readonly costs: {
    readonly meanBatchCost: number
    readonly largestBatchCost: number
    readonly paddingShare: number
  } | null
  /** Of the instances, while there was something to do. */
  readonly utilisation: number
  /** Most requests that were waiting at once. */
  readonly maxQueued: number
  /** From the start to the last answer. */
  readonly simulatedSeconds: number
  readonly wallSeconds: number
  /** Empty unless it was asked for. */
  readonly timeline: readonly Interval[]
}

/** Sums up what was recorded. */
export function summarise(
  targetMs: number,
  instances: number,
  record: SimulationRecord,
  busyMs: number,
  wallMs: number,
): SimulationResult {
  const { answeredCount: answered, lateCount: late, runs, lastAnswerMs, runsByRows, costs } = record
  const sortedMs = record.latenciesMs.subarray(0, answered).sort()
  const quantile = (q: number) => sortedMs[Math.max(0, Math.ceil(q * answered) - 1)] ?? null
  const seconds = lastAnswerMs / 1000
  const perSecond = (count: number) => (seconds === 0 ? 0 : count / seconds)
  const batches: Record<number, number> = {}
  let rows = 0
  for (const [size, count] of [...runsByRows].sort(([a], [b]) => a - b)) {
    batches[size] = count
    rows += size * count
  }
  return {
    targetMs,
    requests: record.requests,
    answered,
    refused: record.refusedCount,
    dropped: record.droppedCount,
    late,
    meanMs: answered === 0 ? null : sortedMs.reduce((sum, ms) => sum + ms, 0) / answered,
    p50Ms: quantile(0.5),
    p90Ms: quantile(0.9),
    p95Ms: quantile(0.95),
    p99Ms: quantile(0.99),
    maxMs: quantile(1),
    throughputPerSecond: perSecond(answered),
    rowsPerSecond: perSecond(record.answeredRows),
    goodputPerSecond: perSecond(answered - late),
    goodputShare: record.requests === 0 ? 0 : (answered - late) / record.requests,
    meanBatchRows: runs === 0 ? 0 : rows / runs,
    batches,
    costs:
      costs.runs === 0
        ? null
        : {
            meanBatchCost: costs.runs / runs,
            largestBatchCost: costs.largest,
            paddingShare: 1 - costs.own / costs.runs,
          },
    utilisation: lastAnswerMs === 0 ? 0 : busyMs / (instances * lastAnswerMs),
    maxQueued: record.maxQueued,
    simulatedSeconds: seconds,
    wallSeconds: wallMs / 1000,
    timeline: record.timeline,
  }
}
