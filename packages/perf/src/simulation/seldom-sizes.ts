import type { SimulationResult } from './simulation-result.ts'
import { fewestRuns } from './size-medians.ts'

/** Up to this share of its batches may be of sizes that hardly ran in a prediction that is still trusted. */
export const trustedSeldomShare = 0.1

/** How many of the batches that are predicted are of sizes of which a recording tells little: what those take is reckoned from other sizes. */
export interface SeldomSizes {
  readonly batches: number
  /** Of sizes that never ran. */
  readonly neverRan: number
  /** Of sizes that ran, but fewer than {@link fewestRuns} times. */
  readonly seldomRan: number
  /** Whether both together are no more than {@link trustedSeldomShare} of the batches. */
  readonly isTrusted: boolean
}

/** Looks up the sizes of a prediction among the runs that it was made from. */
export function seldomSizes(
  runs: readonly { readonly rows: number }[],
  { batches }: Pick<SimulationResult, 'batches'>,
): SeldomSizes {
  const ran = new Map<number, number>()
  for (const { rows } of runs) ran.set(rows, (ran.get(rows) ?? 0) + 1)
  const sizes = Object.entries(batches).map(([rows, count]) => ({ count, times: ran.get(Number(rows)) ?? 0 }))
  const total = (of: typeof sizes) => of.reduce((sum, { count }) => sum + count, 0)
  const all = total(sizes)
  const neverRan = total(sizes.filter(({ times }) => times === 0))
  const seldomRan = total(sizes.filter(({ times }) => times > 0 && times < fewestRuns))
  return { batches: all, neverRan, seldomRan, isTrusted: neverRan + seldomRan <= all * trustedSeldomShare }
}
