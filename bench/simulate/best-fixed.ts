import type { Scenario } from './scenario.ts'
import { simulate, type PolicyResult } from './simulate.ts'

/** A fixed configuration and what came of it. */
export interface FixedResult {
  readonly maxBatchSize: number
  readonly maxQueueDelayMs: number
  readonly result: PolicyResult
}

/** The best that fixed configurations can do. */
export interface BestFixed {
  /** Highest goodput of those whose p99 is within the target; `null` when none is. */
  readonly withinTarget: FixedResult | null
  /** Highest goodput of all. */
  readonly highest: FixedResult
}

/** Tries every size with every delay. */
export function bestFixed(
  scenario: Partial<Scenario>,
  sizes: readonly number[],
  delaysMs: readonly number[],
): BestFixed {
  const tried: FixedResult[] = []
  for (const maxBatchSize of sizes) {
    for (const maxQueueDelayMs of delaysMs) {
      const fixed = { policy: 'zerohop', maxBatchSize, preferredBatchSizes: [], maxQueueDelayMs } as const
      tried.push({ maxBatchSize, maxQueueDelayMs, result: simulate({ ...scenario, ...fixed }) })
    }
  }
  const { targetMs } = tried[0]!.result
  tried.sort((a, b) => b.result.goodputPerSecond - a.result.goodputPerSecond)
  return {
    withinTarget: tried.find(({ result }) => (result.p99Ms ?? Infinity) <= targetMs) ?? null,
    highest: tried[0]!,
  }
}
