/** What requests were answered with besides runs of their own. The first three are all requests that came to be looked up. */
export interface ResponseCacheStatistics {
  /** Requests that were answered from the cache. */
  readonly hits: number
  /** Requests for which a run was begun. */
  readonly misses: number
  /** Requests that joined the run of an equal one in flight. */
  readonly coalesced: number
  /** Answers that were dropped to make room for others. */
  readonly evictions: number
  /** Answers that are kept now. */
  readonly entries: number
  /** What these take, in bytes: their data, and what JavaScript takes to hold them, roughly. */
  readonly bytes: number
}

/** The same with what looking up took, in milliseconds. */
export interface ResponseTotals {
  readonly counts: ResponseCacheStatistics
  /** Of hits: to find and copy the answers. */
  readonly hitMs: number
  /** Of misses: to find that there is none, and to keep the answers of their runs. */
  readonly missMs: number
}
