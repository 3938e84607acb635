/** Thrown by rules if rows are not proved to stay separate: they mix, or it is not known. */
export class NotProved extends Error {
  readonly verdict: 'dependent' | 'unknown'

  constructor(verdict: NotProved['verdict'], reason: string) {
    super(reason)
    this.verdict = verdict
  }
}

export const dependent = (reason: string): never => {
  throw new NotProved('dependent', reason)
}
export const notFollowed = (reason: string): never => {
  throw new NotProved('unknown', reason)
}

/** The end of a reason for outputs that have rows, but not one entry per row. */
export const severalEntries = 'with more than one entry for each of N rows'
