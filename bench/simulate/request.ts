import { WaitingRequest } from '../../src/queue/waiting-request.ts'
import { PriorityLevel } from '../../src/queue/priority-levels.ts'

/** Simulated requests have no priorities, no timeouts and no limit on how many may wait. */
export function makeLevel(): PriorityLevel {
  return new PriorityLevel(0, { timeoutAction: 'REJECT', defaultTimeoutMs: 0, allowTimeoutOverride: false, maxQueueSize: 0 })
}

/** A request: what the queue needs of one, and which it is. */
export class SimulatedRequest extends WaitingRequest {
  readonly index: number

  constructor(index: number, rows: number, level: PriorityLevel) {
    super(rows, '', level)
    this.index = index
  }
}

/** Rows of several requests. */
export function rowsOf(requests: readonly SimulatedRequest[]): number {
  let rows = 0
  for (const request of requests) rows += request.rows
  return rows
}
