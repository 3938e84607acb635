/** Thrown by rules where the rows of something are not proved to stay apart: they meet, or it is not known. */
export class NotProved extends Error {
  readonly verdict: 'meets' | 'unknown'

  constructor(verdict: NotProved['verdict'], reason: string) {
    super(reason)
    this.verdict = verdict
  }
}

export const meets = (reason: string): never => {
  throw new NotProved('meets', reason)
}
export const notFollowed = (reason: string): never => {
  throw new NotProved('unknown', reason)
}

/** How a reason ends where an output has rows, but not one entry for each. */
export const severalEntries = 'with more than one entry for each of N rows'
