import type { PriorityLevel } from './infer-request.ts'

/** The requests that expire within one stretch of time, with holes where some have left. */
export interface ExpirySlot {
  entries: (WaitingRequest | null)[]
  live: number
}

/** The line in which a request waits, as much of it as the request knows. */
export interface LineOf<Owner> {
  readonly owner: Owner
}

/**
 * A request as the queue sees it: plain data plus its place in the queue, which it knows itself so that leaving that costs no search
 * and no allocation. Those of the simulator are made of it; an `InferRequest` has the same fields.
 */
export class WaitingRequest {
  /** Rows this request adds to a batch: 1 or more (0 only for requests that ask for an empty run). */
  readonly rows: number
  /** Requests batch together only when their keys are equal; '' when all shapes are fixed. */
  bucketKey: string
  readonly level: PriorityLevel
  /** Where it waits; `null` before and after. */
  line: LineOf<any> | null = null
  /** Its place there; kept by the line. */
  position = 0
  /** Whether it is part of a batch that was handed to a busy instance: it waits still, in no line. */
  ahead = false
  /** How many requests had come to its queue before it. */
  came = 0
  enqueuedAtMs = 0
  // Not Infinity: an object of its own would be made to hold that number, for each request.
  /** When its answer is of no use any more; `null` for never. */
  deadlineAtMs: number | null = null
  /** When the request gives up waiting; `null` for never. */
  timeoutAtMs: number | null = null
  /** Where it is watched for its expiry; `null` when it is not. */
  expirySlot: ExpirySlot | null = null

  /** Its place in {@link expirySlot}. */
  expiryIndex = 0
  /** Whether its timeout ran out under the action `DELAY`: it waits behind all others of its level. */
  delayed = false
  /** Whether it may not be sent yet, as another has to go before or it is not {@link unready ready}: it waits still, in no line. */
  held = false
  /** Whether some of its inputs are still being made, as encoded images are. */
  unready = false
  /** When its inputs were there; `null` for as soon as it came. */
  readyAtMs: number | null = null
  /** What all of its rows cost, and how many requests had come before it, which the queue keeps; `null` where nothing is said of costs. */
  cost: { readonly units: number; order: number } | null = null

  constructor(rows: number, bucketKey: string, level: PriorityLevel) {
    this.rows = rows
    this.bucketKey = bucketKey
    this.level = level
  }
}
