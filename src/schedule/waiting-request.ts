import type { PriorityLevel } from './priority-levels.ts'

/**
 * Why a request left the queue without reaching a batch: its timeout ran out, its deadline can no longer be met, its
 * caller withdrew it, or the queue was closed.
 */
export type QueueExit = 'timeout' | 'deadline' | 'cancelled' | 'closed'

/** The requests that expire within one stretch of time, with holes where some have left. */
export interface ExpirySlot {
  entries: (WaitingRequest | null)[]
  live: number
}

/** What a request costs, for a model whose batches are limited by that. */
export interface WaitingCost {
  /** All of its rows together. */
  readonly units: number
  /** Requests that had come before it; kept by the queue. */
  order: number
}

/** The line in which a request waits, as much of it as the request knows. */
export interface LineOf<Owner> {
  readonly owner: Owner
}

/**
 * A request as the scheduler sees it: plain data plus its place in the queue it waits in, which it knows itself so that
 * leaving the queue costs no search and no allocation.
 */
export class WaitingRequest {
  /** Rows this request adds to a batch: 1 or more (0 only for requests that ask for an empty run). */
  readonly rows: number
  /** Where it waits; `null` before and after. */
  line: LineOf<any> | null = null
  /** Its place there; kept by the line. */
  position = 0
  /** Whether it is part of a batch that was handed to a busy instance: it waits still, in no line. */
  ahead = false
  /** Whether it may not be sent yet, as another has to go before or it is not {@link unready ready}: it waits still, in no line. */
  held = false
  /** Whether some of its inputs are still being made, as encoded images are. */
  unready = false
  /** How many requests had come to its queue before it. */
  came = 0
  // Not Infinity: an object of its own would be made to hold that number, for each request.
  /** When its answer is of no use any more; `null` for never. */
  deadlineAtMs: number | null = null
  readonly level: PriorityLevel
  /** `null` where nothing is said of what requests cost. */
  cost: WaitingCost | null = null
  /** Where it is watched for its expiry; `null` when it is not. */
  expirySlot: ExpirySlot | null = null
  expiryIndex = 0
  /** Whether its timeout ran out under the action `DELAY`: it waits behind all others of its level. */
  delayed = false
  enqueuedAtMs = 0
  /** When its inputs were there; `null` for as soon as it came. */
  readyAtMs: number | null = null
  /** When the request gives up waiting; `null` for never. */
  timeoutAtMs: number | null = null
  /** Requests batch together only when their keys are equal; '' when all shapes are fixed. */
  bucketKey: string

  constructor(rows: number, bucketKey: string, level: PriorityLevel) {
    this.rows = rows
    this.bucketKey = bucketKey
    this.level = level
  }
}

/** When the queue must look at a request again, whatever else happens; `Infinity` for never. */
export function expiresAtMs({ timeoutAtMs, deadlineAtMs }: WaitingRequest): number {
  return Math.min(timeoutAtMs ?? Infinity, deadlineAtMs ?? Infinity)
}
