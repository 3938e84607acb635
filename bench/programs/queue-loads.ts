import { RequestQueue } from '../../src/schedule/request-queue.ts'
import { PriorityLevels } from '../../src/request/infer-request.ts'
import { WaitingRequest } from '../../test/queue/waiting-request.ts'
import { resolveLevels } from '../../src/options/batching.ts'
import { systemClock } from '../../src/base/clock.ts'
import { FairShare } from '../../src/run/thread-time.ts'
import { mulberry32 } from '../../test/models/random.ts'

/** Requests of a full batch. */
export const batchSize = 32

/** What waits in the queue. */
export interface QueueCase {
  readonly queued: number
  readonly buckets: number
  readonly priorityLevels: number
  readonly timeouts: boolean
  /** Models on one worker, each with a queue of its own; the rest is for all of them together. */
  readonly models: number
}

/** Requests drawn beforehand and used in turn. */
const drawn = 4096
/** Timeouts are between this and twice as long; every request is dispatched long before. */
const shortestTimeoutMs = 10_000

/** One queue, and what the engine does around it for every request. */
class Queue {
  readonly #levels: PriorityLevels
  readonly #queue: RequestQueue<WaitingRequest>

  constructor(priorityLevels: number) {
    const defaultPolicy = { ...resolveLevels(null).defaultPolicy, maxQueueSize: 1_000_000 }
    this.#levels = new PriorityLevels({
      priorityLevels,
      defaultPriorityLevel: priorityLevels,
      defaultPolicy,
      policies: new Map(),
    })
    const limits = {
      maxBatchSize: batchSize,
      preferredBatchSizes: [],
      maxQueueDelayMs: 0,
      joinRequests: true,
      holdUntilQueued: 0,
    }
    this.#queue = new RequestQueue(limits, systemClock, {
      dropped: () => {},
      revoke: () => false,
      wake: () => {},
    })
  }

  /** True when a full batch waits. */
  enqueue(bucketKey: string, priority: number | undefined, timeoutMs: number | undefined): boolean {
    const level = this.#levels.of(priority)
    if (level.full) throw new RangeError('the queue is full')
    const entry = new WaitingRequest(1, bucketKey, level)
    const nowMs = systemClock.nowMs()
    const waitMs = level.timeoutFor(timeoutMs)
    if (waitMs > 0) entry.timeoutAtMs = nowMs + waitMs
    return this.#queue.enqueue(entry, nowMs)
  }

  /** Requests of the batch; 0 when there was none. */
  dispatch(): number {
    return this.#queue.take(true)?.entries.length ?? 0
  }

  close(): void {
    this.#queue.clear('closed')
  }
}

/** Requests that come and go as `queueCase` says. */
export class QueueLoad {
  readonly #case: QueueCase
  readonly #queues: Queue[]
  readonly #shares = new FairShare<Queue>()
  readonly #keys: string[] = Array.from({ length: batchSize }, () => '')
  readonly #randoms: Float64Array
  #next = 0

  constructor(queueCase: QueueCase) {
    this.#case = queueCase
    const random = mulberry32(1)
    this.#randoms = Float64Array.from({ length: drawn }, () => random())
    this.#queues = Array.from({ length: queueCase.models }, () => new Queue(queueCase.priorityLevels))
    for (const queue of this.#queues) this.#shares.join(queue)
    for (let left = queueCase.queued; left > 0; left -= batchSize) {
      this.prepare(Math.min(left, batchSize))
      this.enqueue(Math.min(left, batchSize))
    }
  }

  /** Makes the keys of the next requests: strings that nobody has looked at, as they come from a request's dims. */
  prepare(requests: number): void {
    const { buckets } = this.#case
    if (buckets === 1) return
    for (let index = 0; index < requests; index++)
      this.#keys[index] = `${1 + ((this.#next + index) % buckets)},64,;`
  }

  enqueue(requests: number): void {
    const { priorityLevels, timeouts, models } = this.#case
    for (let index = 0; index < requests; index++) {
      const turn = this.#next++
      const random = this.#randoms[turn % drawn]!
      const priority = priorityLevels === 0 ? undefined : 1 + Math.floor(random * priorityLevels)
      const queue = this.#queues[turn % models]!
      const full = queue.enqueue(
        this.#keys[index]!,
        priority,
        timeouts ? shortestTimeoutMs * (1 + random) : undefined,
      )
      if (full && models > 1) this.#shares.activate(queue)
    }
  }

  /** Requests of the batch, which is charged to its model as if it had taken some milliseconds. */
  dispatch(): number {
    if (this.#case.models === 1) return this.#queues[0]!.dispatch()
    for (let share = this.#shares.next(); share !== null; share = this.#shares.next()) {
      const requests = share.source.dispatch()
      if (requests > 0) {
        const charge = this.#shares.charge(share.source, 1)
        this.#shares.settle(charge, 0.5 + this.#randoms[this.#next % drawn]!)
        return requests
      }
      this.#shares.deactivate(share.source)
    }
    throw new Error('no queue has work')
  }

  close(): void {
    for (const queue of this.#queues) queue.close()
  }
}
