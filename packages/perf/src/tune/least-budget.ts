import { firstWarmupMs } from './model-processes.ts'

/** The default, one batch size, and two candidates beside each other: with less nothing is found out. */
const fewestMeasurements = 4
/** Of models whose runs are short. */
const usualWindowMs = 300
/** A budget that did not do is not enough, whatever was reckoned. */
const leastGrowth = 2

/**
 * With how many seconds a call that had no time to measure anything is worth while.
 *
 * @param beganMs what went by until there was something to measure.
 * @param startMs what a process takes from its start until its model is loaded.
 */
export function leastBudgetSeconds(beganMs: number, startMs: number, budgetMs: number): number {
  const neededMs = beganMs + fewestMeasurements * (startMs + firstWarmupMs + usualWindowMs)
  return Math.ceil(Math.max(neededMs, leastGrowth * budgetMs) / 1000)
}
