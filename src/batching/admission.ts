import { deadlineMarginMs } from './batch-policy.ts'
import type { RunTimes } from './run-times.ts'

/** What admission keeps free: a little more than the batcher, so that what was admitted never makes a batch smaller. */
export const admissionMarginMs = deadlineMarginMs + 0.5

/** What a new request would wait behind. */
export interface Backlog {
  /** Rows that wait before it. */
  readonly rowsAhead: number
  /** Rows of a full batch. */
  readonly batchRows: number
  readonly instances: number
  /** How long until the first instance can start something, in milliseconds. */
  readonly freeInMs: number
  /** How many times longer everything takes because workers are shared; 1 for workers of one's own. */
  readonly sharing: number
}

/**
 * In how many milliseconds a request of `rows` rows would be answered: the runs before it as long as they usually are,
 * its own as long as 99 of 100 are. 0 when nothing is known of such runs. Counting whole batches ahead, not requests
 * ahead, is what keeps a long queue of a batching model from being refused without need.
 */
export function estimatedAnswerMs(runTimes: RunTimes, bucketKey: string, rows: number, backlog: Backlog): number {
  if (!runTimes.knows(bucketKey)) return 0
  const { rowsAhead, batchRows, instances, freeInMs, sharing } = backlog
  const batchesAhead = Math.floor(rowsAhead / batchRows)
  // An instance that is free now answers as fast as it usually does; with that a wrong estimate is found out again.
  if (freeInMs === 0 && batchesAhead === 0) return runTimes.medianMs(bucketKey, Math.min(batchRows, rowsAhead + rows)) + admissionMarginMs
  const fullRows = Math.max(rows, batchRows)
  const usualMs = runTimes.medianMs(bucketKey, fullRows)
  const spreadMs = runTimes.p99Ms(bucketKey, fullRows) - usualMs
  const runsAhead = (batchesAhead * sharing) / instances
  return freeInMs + (runsAhead + 1) * usualMs + Math.sqrt(runsAhead + 2) * spreadMs + admissionMarginMs
}
