import type { ReadyEstimate } from '../request/participants.ts'
import { deadlineMarginMs } from './request-queue.ts'
import type { RunTimes } from './estimates.ts'

/** What admission keeps free: a little more than the queue, so that what was admitted never makes a batch smaller. */
export const admissionMarginMs = deadlineMarginMs + 0.5

/** Share of a run's time by which runs are estimated to spread at least: arrivals spread however even the runs are. */
const leastSpread = 0.05

const isReady: ReadyEstimate = { inMs: 0, spreadMs: 0, isNext: true }

/** What a new request would wait behind. */
export interface Backlog {
  /** Rows that wait before it. */
  readonly rowsAhead: number
  /** Rows of a full batch. */
  readonly batchRows: number
  /** Estimated rows that join a batch per millisecond that it waits; 0 where deadlines keep them from it. */
  readonly joiningRowsPerMs: number
  readonly instances: number
  /** How long until the first instance can start something, in milliseconds. */
  readonly freeInMs: number
  /** When the inputs of the request itself will be there; left out where they are. */
  readonly ready?: ReadyEstimate | undefined
  /** How many times longer everything takes because workers are shared; 1 for workers of one's own. */
  readonly sharing: number
  /** Whether it is to keep a latency target, and not a deadline that a caller gave. Default false. */
  readonly keepsTarget?: boolean
  /** The present time, if the estimate decides whether a request is admitted. Default: `null`. */
  readonly decidesAtMs?: number | null
}

/**
 * In how many milliseconds a request of `rows` rows would be answered at the latest, as far as can be known; 0 when
 * nothing is known of such runs. Counting whole batches ahead, not requests ahead, is what keeps a long queue of a
 * batching model from being refused without need.
 */
export function estimatedAnswerMs(
  runTimes: RunTimes,
  bucketKey: string,
  rows: number,
  backlog: Backlog,
): number {
  const {
    rowsAhead,
    batchRows,
    joiningRowsPerMs,
    instances,
    freeInMs,
    ready = isReady,
    sharing,
    keepsTarget = false,
    decidesAtMs = null,
  } = backlog
  if (!runTimes.knows(bucketKey)) return ready.inMs
  const times = runTimes.of(bucketKey)
  const batchesAhead = Math.floor(rowsAhead / batchRows)
  // For an idle instance the least time counts. Otherwise the end of a slow phase would never be noticed.
  if (freeInMs === 0 && batchesAhead === 0 && ready.isNext) {
    const ownRows = Math.max(rows, Math.min(batchRows, rowsAhead + rows))
    const ownMs = decidesAtMs === null ? times.usualMs(ownRows) : times.leastMs(ownRows, decidesAtMs)
    return ready.inMs + ownMs + admissionMarginMs
  }
  const runsAhead = (batchesAhead * sharing) / instances
  const aheadMs = batchesAhead === 0 ? 0 : runsAhead * times.presentMs(batchRows)
  // Its own batch goes on growing while it waits.
  const presentRows = Math.max(rows, Math.min(batchRows, (rowsAhead % batchRows) + rows))
  const joiningRows = Math.ceil(joiningRowsPerMs * (freeInMs + aheadMs))
  const ownRows = Math.max(presentRows, Math.min(batchRows, presentRows + joiningRows))
  const ownMs = times.presentMs(ownRows)
  const spreadMs = Math.max(leastSpread * ownMs, times.p99Ms(ownRows, keepsTarget) - ownMs)
  // Before its own run all who share have one more; what they hold is unknown, and taken for as much as it finds itself.
  const othersMs = ((sharing - 1) / instances) * times.presentMs(presentRows)
  // What is made ready for it is so while the others run; when it is, some run has begun that it was not there for.
  const startInMs = Math.max(freeInMs + aheadMs, ready.inMs === 0 ? 0 : ready.inMs + ownMs / 2)
  const expectedMs = startInMs + ownMs + othersMs
  // The one that runs now is one of them.
  const spreadOfAllMs = Math.hypot(spreadOfSumMs(runsAhead + 2, spreadMs, expectedMs), ready.spreadMs)
  return expectedMs + runTimes.safetyFactor.reserveMs(spreadOfAllMs, expectedMs) + admissionMarginMs
}

/**
 * The spread of the sum of several runs, where 1 run of 100 takes `spreadMs` longer than usual. It grows with the root of their number,
 * as independent errors do, up to one slow run plus the expected time: very slow runs are rare and hardly ever follow each other.
 */
export function spreadOfSumMs(runs: number, spreadMs: number, expectedMs: number): number {
  return Math.min(Math.sqrt(runs) * spreadMs, spreadMs + expectedMs)
}
