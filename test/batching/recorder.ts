import { Batcher, type BatcherOptions } from '../../src/batching/batcher.ts'
import { QueueEntry, type QueueExit } from '../../src/batching/entry.ts'
import { FakeClock } from '../fake-clock.ts'

export class Named extends QueueEntry {
  readonly name: string

  constructor(name: string, rows: number, shapeKey: string) {
    super(rows, shapeKey)
    this.name = name
  }
}

interface Arrival {
  readonly rows?: number
  readonly shape?: string
  readonly timeoutMs?: number
}

/** A batcher whose batches and exits can be read as names, and the clock it lives by. */
export function setup(options: Partial<BatcherOptions> = {}) {
  const clock = new FakeClock(1000)
  const exits: [name: string, why: QueueExit, atMs: number][] = []
  const wakes: number[] = []
  const batcher = new Batcher<Named>(
    { maxBatchSize: 4, preferredBatchSizes: [], maxQueueDelayMs: 0, maxQueueSize: 0, joinRequests: true, ...options },
    clock,
    {
      dropped: ({ name }, why) => exits.push([name, why, clock.nowMs() - 1000]),
      wake: () => wakes.push(clock.nowMs() - 1000),
    },
  )
  const make = (name: string, { rows = 1, shape = '', timeoutMs = Infinity }: Arrival = {}): Named => {
    const entry = new Named(name, rows, shape)
    entry.deadlineMs = clock.nowMs() + timeoutMs
    return entry
  }
  const add = (name: string, arrival?: Arrival): Named => {
    const entry = make(name, arrival)
    batcher.enqueue(entry, clock.nowMs())
    return entry
  }
  const take = (idle = true): string[] | undefined => batcher.take(idle)?.map(({ name }) => name)
  return { clock, batcher, exits, wakes, make, add, take }
}
