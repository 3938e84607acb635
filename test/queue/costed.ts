import { RequestQueue, type QueueOptions } from '../../src/schedule/request-queue.ts'
import type { CostLimits } from '../../src/options/batching.ts'
import { type QueueExit, PriorityLevels, type PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from './waiting-request.ts'
import { FakeClock } from '../fake-clock.ts'
import { noPolicy } from './recorder.ts'

/** A request with a length, which is what a row of it costs. */
export class Costed extends WaitingRequest {
  readonly id: number
  readonly length: number
  fate: QueueExit | 'result' | null = null

  constructor(id: number, length: number, rows: number, level: PriorityLevel) {
    super(rows, '*', level)
    this.id = id
    this.length = length
    this.cost = { units: length * rows, order: 0 }
  }
}

export const padded: CostLimits = { maxBatchCost: 100, isPadded: true, maxPaddingShare: 0.1 }

export interface CostedOptions extends Partial<QueueOptions> {
  readonly priorityLevels?: number
}

/** A queue of requests with lengths, and the clock it lives by. */
export function setupCosts(
  costs: Partial<CostLimits> = {},
  { priorityLevels = 0, ...options }: CostedOptions = {},
) {
  const clock = new FakeClock(1000)
  const levels = new PriorityLevels({
    priorityLevels,
    defaultPriorityLevel: priorityLevels,
    defaultPolicy: noPolicy,
    policies: new Map(),
  })
  const limits = {
    maxBatchSize: 8,
    preferredBatchSizes: [],
    maxQueueDelayMs: 0,
    joinRequests: true,
    holdUntilQueued: 0,
    ...options,
    cost: { ...padded, ...costs },
  }
  const queue = new RequestQueue<Costed>(limits, clock, {
    dropped: (request, why) => {
      if (request.fate !== null) throw new Error(`#${request.id} was settled twice`)
      request.fate = why
    },
    revoke: () => false,
    wake: () => {},
  })
  let made = 0
  const add = (
    length: number,
    { rows = 1, priority, timeoutMs = 0 }: { rows?: number; priority?: number; timeoutMs?: number } = {},
  ): Costed => {
    const request = new Costed(made++, length, rows, levels.of(priority))
    if (timeoutMs > 0) request.timeoutAtMs = clock.nowMs() + timeoutMs
    queue.enqueue(request, clock.nowMs())
    return request
  }
  /** Lengths of the next batch, and why it was closed. */
  const take = (idle = true): [reason: string, ...lengths: number[]] | undefined => {
    const formed = queue.take(idle)
    return formed === null ? undefined : [formed.reason, ...formed.entries.map(({ length }) => length)]
  }
  return { clock, queue, limits, levels, add, take }
}

/** What a batch costs, padded or not. */
export function costOf(batch: readonly Costed[], isPadded = true): number {
  const rows = batch.reduce((sum, request) => sum + request.rows, 0)
  return isPadded ? rows * Math.max(...batch.map(({ length }) => length)) : ownCostOf(batch)
}

export function ownCostOf(batch: readonly Costed[]): number {
  return batch.reduce((sum, { length, rows }) => sum + length * rows, 0)
}
