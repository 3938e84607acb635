import { defaultPaddingShare, type BatchLimits, type Random } from 'zerohop/internals'
import type { SimulatedRequest } from './simulated-queue.ts'
import { drawByShare, type Traffic } from './traffic.ts'

/**
 * The cost of a request's row, and the share of requests with such rows, relative to the sum of all shares.
 */
export interface CostShare {
  readonly cost: number
  readonly share: number
}

/** Costs of requests, and how they limit batches. */
export interface SimulatedCosts {
  readonly mix: readonly CostShare[]
  /** Whether rows are padded to the most expensive one of their batch. Default: true. */
  readonly isPadded?: boolean
  /** Default: no limit. */
  readonly maxBatchCost?: number
  /** Default: 0.1. */
  readonly maxPaddingShare?: number
  /**
   * `'arrival'`: batches are formed in order of arrival, as without `cost` in a configuration. Default:
   * `'cost'`.
   */
  readonly joinBy?: 'cost' | 'arrival'
}

/** The limits of batches; `undefined` if costs set none. */
export function simulatedLimits(costs: SimulatedCosts | undefined): BatchLimits['cost'] {
  if (costs === undefined || costs.joinBy === 'arrival') return undefined
  const { isPadded = true, maxBatchCost = Infinity, maxPaddingShare = defaultPaddingShare } = costs
  return { isPadded, maxBatchCost, maxPaddingShare }
}

/** The average cost of a row. */
export function meanCost({ mix }: SimulatedCosts): number {
  const total = mix.reduce((sum, { share }) => sum + share, 0)
  return mix.reduce((sum, { cost, share }) => sum + cost * share, 0) / total
}

/** The sum of a batch's requests' own costs, and the cost of the batch. */
export function costsOf(
  requests: readonly SimulatedRequest[],
  isPadded: boolean,
): { readonly ownCost: number; readonly batchCost: number } {
  let [ownCost, dearest, rows] = [0, 0, 0]
  for (const request of requests) {
    const { units } = request.cost!
    ownCost += units
    dearest = Math.max(dearest, units / request.rows)
    rows += request.rows
  }
  return { ownCost, batchCost: isPadded ? dearest * rows : ownCost }
}

/** Adds a random cost to each request of other traffic. */
export function withCosts(traffic: Traffic, mix: readonly CostShare[], random: Random): Traffic {
  const draw = drawByShare(mix, random)
  return {
    count: traffic.count,
    get nextMs() {
      return traffic.nextMs
    },
    take: () => ({ ...traffic.take(), cost: draw().cost }),
    ended: (nowMs, index) => traffic.ended(nowMs, index),
  }
}
