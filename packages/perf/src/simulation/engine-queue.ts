import { type LatencyTarget, RequestQueue, type QueueOwner, type RunTimes } from 'zerohop/internals'
import { SimulatedQueue, type QueueContext } from './simulated-queue.ts'
import type { SimulatedRequest } from './simulated-request.ts'

/**
 * The library's own queue with fixed sizes: a batch is closed when an instance is idle, and a full one may wait
 * behind one that runs.
 */
export class EngineQueue extends SimulatedQueue implements QueueOwner<SimulatedRequest> {
  protected readonly context: QueueContext
  protected readonly queue: RequestQueue<SimulatedRequest>

  constructor(context: QueueContext, runTimes: RunTimes | null = null, sizer: LatencyTarget | null = null) {
    super(context)
    this.context = context
    const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, joinRequests = true, cost } = context.settings
    const options = {
      maxBatchSize,
      preferredBatchSizes,
      maxQueueDelayMs,
      joinRequests,
      holdUntilQueued: 0,
      ...(cost && { cost }),
    }
    this.queue = new RequestQueue(options, context.clock, this, runTimes, sizer)
  }

  get waiting(): number {
    return this.queue.hasUnsent ? this.queue.count : 0
  }

  override get hasFull(): boolean {
    return this.queue.hasFull
  }

  arrive(request: SimulatedRequest): boolean {
    if (request.level.full) return false
    if (request.deadlineMs !== undefined && request.deadlineAtMs === null)
      request.deadlineAtMs = this.context.clock.nowMs() + request.deadlineMs
    this.join(request)
    return true
  }

  override join(request: SimulatedRequest): void {
    const { clock } = this.context
    if (request.decodeMs === 0) return void this.queue.enqueue(request, clock.nowMs())
    request.unready = true
    this.queue.hold(request, clock.nowMs())
    clock.setTimer(() => {
      if (!request.held) return // it has left the queue
      this.queue.ready(request, clock.nowMs())
      this.context.wake()
    }, request.decodeMs)
  }

  override withdraw(request: SimulatedRequest): boolean {
    return this.queue.cancel(request, 'cancelled')
  }

  override started(requests: readonly SimulatedRequest[]): void {
    this.queue.started(requests)
  }

  override putBack(requests: readonly SimulatedRequest[]): void {
    this.queue.putBack(requests)
  }

  take(idle: boolean, startsInMs: number): SimulatedRequest[] | null {
    return this.queue.take(idle, startsInMs)?.entries ?? null
  }

  dropped(request: SimulatedRequest): void {
    this.context.drop(request)
  }

  takeBack(request: SimulatedRequest): boolean {
    return this.context.takeBack(request)
  }

  wake(): void {
    this.context.wake()
  }
}
