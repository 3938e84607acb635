import type { Interval, Recorder } from './recorder.ts'
import type { PolicyName, Scenario } from './scenario.ts'

/** What a simulation found. Latencies are `null` when nothing was answered. */
export interface Result {
  readonly policy: PolicyName
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
  readonly p99Ms: number | null
  readonly maxMs: number | null
  /** Answers. */
  readonly throughputPerSecond: number
  /** Answers within the target. */
  readonly goodputPerSecond: number
  /** Answers within the target, of all requests. */
  readonly goodputShare: number
  readonly meanBatchRows: number
  /** Runs by rows. */
  readonly batches: Readonly<Record<number, number>>
  /** Of the instances, while there was something to do. */
  readonly utilisation: number
  /** Most requests that were waiting at once. */
  readonly maxQueued: number
  /** From the start to the last answer. */
  readonly simulatedSeconds: number
  readonly wallSeconds: number
  readonly timeline: readonly Interval[]
}

/** Sums up what was recorded. */
export function summarise({ policy, targetMs, instances }: Scenario, recorder: Recorder, requests: number, busyMs: number, wallMs: number): Result {
  const { answeredCount: answered, lateCount: late, runs, lastAnswerMs, runsByRows } = recorder
  const sortedMs = recorder.latenciesMs.subarray(0, answered).sort()
  const quantile = (q: number) => sortedMs[Math.max(0, Math.ceil(q * answered) - 1)] ?? null
  const seconds = lastAnswerMs / 1000
  const perSecond = (count: number) => (seconds === 0 ? 0 : count / seconds)
  const batches: Record<number, number> = {}
  let rows = 0
  for (const [size, count] of runsByRows.entries()) {
    if (count > 0) batches[size] = count
    rows += size * count
  }
  return {
    policy,
    targetMs,
    requests,
    answered,
    refused: recorder.refusedCount,
    dropped: recorder.droppedCount,
    late,
    meanMs: answered === 0 ? null : sortedMs.reduce((sum, ms) => sum + ms, 0) / answered,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    maxMs: quantile(1),
    throughputPerSecond: perSecond(answered),
    goodputPerSecond: perSecond(answered - late),
    goodputShare: requests === 0 ? 0 : (answered - late) / requests,
    meanBatchRows: runs === 0 ? 0 : rows / runs,
    batches,
    utilisation: lastAnswerMs === 0 ? 0 : busyMs / (instances * lastAnswerMs),
    maxQueued: recorder.maxQueued,
    simulatedSeconds: seconds,
    wallSeconds: wallMs / 1000,
    timeline: recorder.timeline,
  }
}
