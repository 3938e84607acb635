import { PriorityLevels, WaitingRequest, type LevelOptions } from 'zerohop/internals'
import type { Coming } from './traffic.ts'

/** No priorities, no timeouts but a request's own, and no limit on how many may wait. */
export const oneLevel: LevelOptions = {
  priorityLevels: 0,
  defaultPriorityLevel: 0,
  defaultPolicy: {
    timeoutAction: 'REJECT',
    defaultTimeoutMs: 0,
    allowTimeoutOverride: false,
    maxQueueSize: 0,
  },
  policies: new Map(),
}

/** A request: what the queue needs of one, and which it is. */
export class SimulatedRequest extends WaitingRequest {
  readonly index: number
  /** Within how long its answer is wanted, in milliseconds; `undefined` for what the model says. */
  readonly deadlineMs: number | undefined
  /** After what time its encoded images are decoded; 0 for one that has none. */
  readonly decodeMs: number
  /** Of the whole request, where this is a part of it. */
  readonly wholeRows: number

  /** @param rows of it: all that come, or a part of them. */
  constructor(
    index: number,
    { rows: wholeRows, bucketKey = '', priority, timeoutMs, deadlineMs, decodeMs = 0, cost }: Coming,
    rows: number,
    levels: PriorityLevels,
    nowMs: number,
  ) {
    super(rows, bucketKey, levels.of(priority))
    this.index = index
    this.wholeRows = wholeRows
    this.deadlineMs = deadlineMs
    this.decodeMs = decodeMs
    if (cost !== undefined) this.cost = { units: cost * rows, order: 0 }
    const waitMs = this.level.timeoutFor(timeoutMs)
    if (waitMs > 0) this.timeoutAtMs = nowMs + waitMs
  }
}

/** What comes, in parts of at most `mostRows` rows. */
export function partsOf(
  index: number,
  coming: Coming,
  mostRows: number,
  levels: PriorityLevels,
  nowMs: number,
): SimulatedRequest[] {
  const parts: SimulatedRequest[] = []
  for (let from = 0; from < coming.rows; from += mostRows)
    parts.push(new SimulatedRequest(index, coming, Math.min(mostRows, coming.rows - from), levels, nowMs))
  return parts
}

/** Rows of several requests. */
export function rowsOf(requests: readonly SimulatedRequest[]): number {
  let rows = 0
  for (const request of requests) rows += request.rows
  return rows
}
