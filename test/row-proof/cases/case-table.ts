/**
 * Graphs (see graph-text.ts) of an operator, by what joining does to them.
 *
 * independent: joining changes nothing, and the proof has to see it.
 * same: joining changes nothing; a proof may leave it open.
 * dependent: joining changes answers, so that a proof would be wrong.
 */
export interface Cases {
  readonly independent?: readonly string[]
  readonly same?: readonly string[]
  readonly dependent?: readonly string[]
}

/** By operator, or by what a graph of several does. */
export type CaseTable = Readonly<Record<string, Cases>>

/** The same cases for each of some operators. */
export function each(operators: string, cases: (operator: string) => Cases): CaseTable {
  return Object.fromEntries(operators.split(' ').map((operator) => [operator, cases(operator)]))
}
