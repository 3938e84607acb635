import { QueueEntry } from '../../src/batching/entry.ts'
import { QueueLevel } from '../../src/batching/queue-level.ts'

/** Simulated requests have no priorities, no timeouts and no limit on how many may wait. */
export function makeLevel(): QueueLevel {
  return new QueueLevel(0, { timeoutAction: 'REJECT', defaultTimeoutMs: 0, allowTimeoutOverride: false, maxQueueSize: 0 })
}

/** A request: what the batcher needs of one, and which it is. */
export class SimulatedRequest extends QueueEntry {
  readonly index: number

  constructor(index: number, rows: number, level: QueueLevel) {
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
