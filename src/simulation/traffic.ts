/** A request that comes. */
export interface Coming {
  /** The number of its model. */
  readonly model: number
  readonly rows: number
  /** Requests share a batch only where this is equal. */
  readonly bucketKey?: string
  readonly priority?: number | undefined
  readonly timeoutMs?: number | undefined
  readonly deadlineMs?: number | undefined
}

/** Where requests come from. */
export interface Traffic {
  /** Requests that will come at most. */
  readonly count: number
  /** When the next one comes that is known of; `Infinity` for none. */
  readonly nextMs: number
  /** Takes it. */
  take(): Coming
  /** A request has been answered, refused or dropped: whoever waited for it may send another. */
  ended(nowMs: number): void
}
