/**
 * Leases of a model's rows since it was loaded: `taken` is the sum of those that are `held` and of those that have ended, by how
 * they did. Encoded images that requests give are written to leases, too.
 */
export interface LeaseStatistics {
  /** All that there ever were. */
  readonly taken: number
  /** Not ended yet. */
  readonly held: number
  /** Ended by `infer()`, whatever became of that. */
  readonly inferred: number
  /** Given back by `release()`, unused. */
  readonly released: number
  /** Held for longer than `maxHoldMs`. */
  readonly expired: number
  /** Collected with nobody having them. */
  readonly dropped: number
  /** Ended with their model. */
  readonly closed: number
  /** Rows that ran where they were written, by a caller or by the step of a pipeline before; one that was run again counts again. */
  readonly rowsInPlace: number
  /** Rows that were copied to their batch, as those of any request are. */
  readonly rowsCopied: number
}

/** Those of a model of which nobody has leased any. */
export const noLeases: LeaseStatistics = {
  taken: 0, held: 0, inferred: 0, released: 0, expired: 0, dropped: 0, closed: 0, rowsInPlace: 0, rowsCopied: 0,
} // prettier-ignore
