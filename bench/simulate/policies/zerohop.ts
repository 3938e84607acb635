import type { BatchSizer } from '../../../src/batching/batch-policy.ts'
import { Batcher, type BatcherHost } from '../../../src/batching/batcher.ts'
import type { RunTimes } from '../../../src/batching/run-times.ts'
import { ModelQueue, type QueueContext } from '../model-queue.ts'
import type { SimulatedRequest } from '../request.ts'

/**
 * The library's own batcher with fixed sizes: a batch is closed when an instance is idle, and a full one may wait
 * behind one that runs.
 */
export class ZerohopQueue extends ModelQueue implements BatcherHost<SimulatedRequest> {
  protected readonly context: QueueContext
  protected readonly batcher: Batcher<SimulatedRequest>

  constructor(context: QueueContext, runTimes: RunTimes | null = null, sizer: BatchSizer | null = null) {
    super(context)
    this.context = context
    const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs } = context.scenario
    const options = { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, joinRequests: true, holdUntilQueued: 0 }
    this.batcher = new Batcher(options, context.clock, this, runTimes, sizer)
  }

  get waiting(): number {
    return this.batcher.count
  }

  override get hasFull(): boolean {
    return this.batcher.hasFull
  }

  arrive(request: SimulatedRequest): boolean {
    this.batcher.enqueue(request, this.context.clock.nowMs())
    return true
  }

  take(idle: boolean, startsInMs: number): SimulatedRequest[] | null {
    return this.batcher.take(idle, startsInMs)?.entries ?? null
  }

  dropped(request: SimulatedRequest): void {
    this.context.drop(request)
  }

  wake(): void {
    this.context.wake()
  }
}
