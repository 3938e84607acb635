import type { Lane } from './lane.ts'

/** Why a request left the queue without reaching a batch. */
export type QueueExit = 'timeout' | 'cancelled' | 'closed'

/**
 * A request as the scheduler sees it: plain data plus the links of the queue it waits in. The links live in the
 * request itself so that leaving the queue costs no search and no allocation.
 */
export class QueueEntry {
  /** Rows this request adds to a batch: 1 or more (0 only for requests that ask for an empty run). */
  readonly rows: number
  /** Requests batch together only when their keys are equal; '' when all shapes are fixed. */
  readonly shapeKey: string
  enqueuedAtMs = 0
  /** When the request gives up waiting; `Infinity` for never. */
  deadlineMs = Infinity
  /** The lane it waits in; `null` before and after. */
  lane: Lane<any> | null = null
  previous: this | null = null
  next: this | null = null

  constructor(rows: number, shapeKey: string) {
    this.rows = rows
    this.shapeKey = shapeKey
  }
}
