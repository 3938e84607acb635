/** A request that comes. */
export interface Coming {
  /** The number of its model. */
  readonly model: number
  readonly rows: number
  /** Of each row; left out where nothing is said of it. */
  readonly cost?: number
  /** Requests share a batch only where this is equal. */
  readonly bucketKey?: string
  readonly priority?: number | undefined
  readonly timeoutMs?: number | undefined
  readonly deadlineMs?: number | undefined
  /** After what time its encoded images are decoded, until which it waits in the queue and keeps no other waiting. */
  readonly decodeMs?: number | undefined
  /** When it came; left out for when it is taken. Of several that come together, all are there by then. */
  readonly cameMs?: number
  /** After what time its caller withdraws it, unless it has been answered. */
  readonly cancelMs?: number | undefined
  /** Its answer is that of another, and takes so long. */
  readonly sharedMs?: number | undefined
}

/** Where requests come from. */
export interface Traffic {
  /** Requests that will come at most. */
  readonly count: number
  /** When the next one comes that is known of; `Infinity` for none. */
  readonly nextMs: number
  /** Takes it. */
  take(): Coming
  /** The request that came as the `index`-th, counted from 0, has been answered, refused or dropped: whoever waited for it may send another. */
  ended(nowMs: number, index: number): void
}
