import { run } from './child.ts'
import type { ClosedLoop, ClosedLoopResult } from './programs/closed-loop.ts'
import { median } from './statistics.ts'

/**
 * Runs closed loops that differ from `base`, each in a process of its own.
 *
 * @param environment for that process.
 */
export function closedLoops(
  base: ClosedLoop,
  environment: NodeJS.ProcessEnv = {},
): (changes?: Partial<ClosedLoop>) => Promise<ClosedLoopResult> {
  return (changes) => run('programs/closed-loop.ts', { ...base, ...changes }, [], environment)
}

/** Rows a second of one side to those of another: median over the rounds, each of which the machine met with both. */
export function rateRatio(ours: readonly ClosedLoopResult[], plain: readonly ClosedLoopResult[]): number {
  return median(ours.map(({ rowsPerSecond }, round) => rowsPerSecond / plain[round]!.rowsPerSecond))
}

/** Median of the rows a second. */
export function rate(results: readonly ClosedLoopResult[]): number {
  return median(results.map(({ rowsPerSecond }) => rowsPerSecond))
}
