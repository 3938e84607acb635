import type { Random } from 'zerohop/internals'

/** Rows of a request, and what part of the requests has them: parts of whatever the shares add up to. */
export interface RowShare {
  readonly rows: number
  readonly share: number
}

/** Draws rows by their shares. */
export function rowsDrawer(mix: readonly RowShare[], random: Random): () => number {
  if (mix.length === 1) return () => mix[0]!.rows
  const total = mix.reduce((sum, { share }) => sum + share, 0)
  return () => {
    let left = random() * total
    for (const { rows, share } of mix) {
      left -= share
      if (left < 0) return rows
    }
    return mix.at(-1)!.rows
  }
}
