import type { ModelOptions } from 'zerohop'
import type { Candidate, Configuration } from './configuration.ts'

/** Where nobody names a budget: of tokens, from a few sentences to what large accelerators take at once. */
const usualBudgets = [1024, 4096, 16_384]

/**
 * Budgets of a batch to try where a cost is configured, 0 for none: those that are named, or around the one that is configured.
 * Nothing to try where no cost is.
 */
export function budgetsOf(
  named: readonly number[] | undefined,
  { dynamicBatching }: Pick<ModelOptions, 'dynamicBatching'>,
): number[] {
  if (dynamicBatching === undefined || dynamicBatching === false || dynamicBatching.cost === undefined)
    return []
  const { maxBatchCost } = dynamicBatching
  const around =
    maxBatchCost === undefined ? usualBudgets : [maxBatchCost / 2, maxBatchCost, 2 * maxBatchCost]
  return [...new Set(named ?? [...around, 0])]
}

/**
 * The same prospects with each of the budgets, side by side. What a budget makes of them only a measurement with the real lengths
 * tells, so all are expected to be alike.
 */
export function withBudgets<Prospect extends { readonly candidate: Candidate }>(
  prospects: readonly Prospect[],
  budgets: readonly number[] = [],
): Prospect[] {
  if (budgets.length === 0) return [...prospects]
  return prospects.flatMap((prospect) => {
    const { candidate } = prospect
    if (candidate.configuration.maxBatchSize < 2) return [prospect]
    return budgets.map((budget) => ({
      ...prospect,
      candidate: { ...candidate, configuration: ofBudget(candidate.configuration, budget) },
    }))
  })
}

function ofBudget(configuration: Configuration, budget: number): Configuration {
  return budget === 0 ? configuration : { ...configuration, maxBatchCost: budget }
}
