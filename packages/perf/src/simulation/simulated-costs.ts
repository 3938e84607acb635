import { defaultPaddingShare, type CostLimits, type Random } from 'zerohop/internals'
import type { SimulatedRequest } from './simulated-queue.ts'
import type { Coming, Traffic } from './traffic.ts'

/** What a row of a request costs, and what part of the requests has such rows: parts of whatever the shares add up to. */
export interface CostShare {
  readonly cost: number
  readonly share: number
}

/** What requests cost, and how batches are limited by it. */
export interface SimulatedCosts {
  readonly mix: readonly CostShare[]
  /** Whether rows are filled up to the dearest of their batch. Default: true. */
  readonly isPadded?: boolean
  /** Default: no limit. */
  readonly maxBatchCost?: number
  /** Default: 0.1. */
  readonly maxPaddingShare?: number
  /** `'arrival'`: batches are made in the order of arrival, as without `cost` in a configuration. Default: `'cost'`. */
  readonly joinBy?: 'cost' | 'arrival'
}

/** What limits the batches; `undefined` where costs do not. */
export function simulatedLimits(costs: SimulatedCosts | undefined): CostLimits | undefined {
  if (costs === undefined || costs.joinBy === 'arrival') return undefined
  const { isPadded = true, maxBatchCost = Infinity, maxPaddingShare = defaultPaddingShare } = costs
  return { isPadded, maxBatchCost, maxPaddingShare }
}

/** What one row costs on average. */
export function meanCost({ mix }: SimulatedCosts): number {
  const total = mix.reduce((sum, { share }) => sum + share, 0)
  return mix.reduce((sum, { cost, share }) => sum + cost * share, 0) / total
}

/** What the requests of a batch cost by themselves, and what the batch does. */
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

/** Requests of other traffic, each of which costs what is drawn for it. */
export class CostedTraffic implements Traffic {
  readonly #traffic: Traffic
  readonly #mix: readonly CostShare[]
  readonly #total: number
  readonly #random: Random

  constructor(traffic: Traffic, mix: readonly CostShare[], random: Random) {
    this.#traffic = traffic
    this.#mix = mix
    this.#total = mix.reduce((sum, { share }) => sum + share, 0)
    this.#random = random
  }

  get count(): number {
    return this.#traffic.count
  }

  get nextMs(): number {
    return this.#traffic.nextMs
  }

  take(): Coming {
    return { ...this.#traffic.take(), cost: this.#draw() }
  }

  ended(nowMs: number, index: number): void {
    this.#traffic.ended(nowMs, index)
  }

  #draw(): number {
    let left = this.#random() * this.#total
    for (const { cost, share } of this.#mix) {
      left -= share
      if (left < 0) return cost
    }
    return this.#mix.at(-1)!.cost
  }
}
