import { RequestQueue, type QueueOptions } from '../../src/schedule/request-queue.ts'
import { type QueueExit, PriorityLevels, type PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from './waiting-request.ts'
import { resolveLevels, type LevelOptions } from '../../src/options/batching.ts'
import type { RunTimes } from '../../src/schedule/estimates.ts'
import { FakeClock } from '../fake-clock.ts'

export class Named extends WaitingRequest {
  readonly name: string

  constructor(name: string, rows: number, bucketKey: string, level: PriorityLevel) {
    super(rows, bucketKey, level)
    this.name = name
  }
}

interface Arrival {
  readonly rows?: number
  readonly shape?: string
  readonly timeoutMs?: number
  readonly deadlineMs?: number
  readonly priority?: number
}

/** A policy that limits nothing. */
export const noPolicy = resolveLevels(null).defaultPolicy

/** A batcher whose batches and exits can be read as names, and the clock it lives by. */
export function setup(
  options: Partial<QueueOptions> = {},
  levelOptions: Partial<LevelOptions> = {},
  runTimes: RunTimes | null = null,
) {
  const levels = new PriorityLevels({
    priorityLevels: 0,
    defaultPriorityLevel: 0,
    defaultPolicy: noPolicy,
    policies: new Map(),
    ...levelOptions,
  })
  const clock = new FakeClock(1000)
  const exits: [name: string, why: QueueExit, atMs: number][] = []
  const wakes: number[] = []
  const batcher = new RequestQueue<Named>(
    {
      maxBatchSize: 4,
      preferredBatchSizes: [],
      maxQueueDelayMs: 0,
      joinRequests: true,
      holdUntilQueued: 0,
      ...options,
    },
    clock,
    {
      dropped: ({ name }, why) => exits.push([name, why, clock.nowMs() - 1000]),
      revoke: () => false,
      wake: () => wakes.push(clock.nowMs() - 1000),
    },
    runTimes,
  )
  const make = (
    name: string,
    { rows = 1, shape = '', timeoutMs, deadlineMs = Infinity, priority }: Arrival = {},
  ): Named => {
    const entry = new Named(name, rows, shape, levels.of(priority))
    const waitMs = entry.level.timeoutFor(timeoutMs)
    if (waitMs > 0) entry.timeoutAtMs = clock.nowMs() + waitMs
    entry.deadlineAtMs = clock.nowMs() + deadlineMs
    return entry
  }
  const add = (name: string, arrival?: Arrival): Named => {
    const entry = make(name, arrival)
    batcher.enqueue(entry, clock.nowMs())
    return entry
  }
  const take = (idle = true): string[] | undefined => batcher.take(idle)?.entries.map(({ name }) => name)
  const takeWithReason = (idle = true): [reason: string, ...names: string[]] | undefined => {
    const formed = batcher.take(idle)
    return formed === null ? undefined : [formed.reason, ...formed.entries.map(({ name }) => name)]
  }
  return { clock, batcher, levels, exits, wakes, make, add, take, takeWithReason }
}
