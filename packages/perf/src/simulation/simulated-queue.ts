import type { Clock, CostLimits } from 'zerohop/internals'
import type { SimulatedRequest } from './simulated-request.ts'

/** What a simulated model is configured with. */
export interface QueueSettings {
  /** In rows. */
  readonly maxBatchSize: number
  /** Default: true. */
  readonly joinRequests?: boolean
  /** Empty for `[maxBatchSize]`. */
  readonly preferredBatchSizes: readonly number[]
  readonly maxQueueDelayMs: number
  /** Left out where costs limit nothing. */
  readonly cost?: CostLimits | undefined
  /** Instances; every model can run on each of them, one run at a time. */
  readonly instances: number
  /** An answer is good within so many milliseconds of the request; a queue with a latency target refuses what it cannot answer by then. */
  readonly targetMs: number
}

/** What a {@link SimulatedQueue} knows of the world. */
export interface QueueContext {
  /** The model's number. */
  readonly model: number
  readonly settings: QueueSettings
  readonly clock: Clock
  /** What the model calibrates itself with: a run of so many rows on an unloaded instance. */
  calibrationMs(rows: number): number
  /** A waiting request left the queue without an answer. */
  drop(request: SimulatedRequest): void
  /** Takes the batch back of which a request is part and that waits behind a run, by {@link SimulatedQueue.putBack}; false when there is none. */
  takeBack(request: SimulatedRequest): boolean
  /** There may be something to take now. */
  wake(): void
  /** How long until an instance could start something, in milliseconds; 0 when one is idle. */
  freeInMs(): number
  /** Among how many models with waiting requests the instances are divided, this one included. */
  sharing(): number
  /** Rows that are served before a request that comes now. */
  rowsAhead(request: SimulatedRequest): number
}

/** The requests of one model and the policy by which they become batches. */
export abstract class SimulatedQueue {
  readonly model: number

  constructor({ model }: QueueContext) {
    this.model = model
  }

  /** Requests that no instance has taken yet. */
  abstract readonly waiting: number

  /** True when a batch is ready that may be handed to a busy instance. */
  get hasFull(): boolean {
    return false
  }

  /** Accepts a request; false when it is refused instead. */
  abstract arrive(request: SimulatedRequest): boolean

  /** Accepts one that is part of a request of which {@link arrive} has accepted the first part. */
  join(request: SimulatedRequest): void {
    this.arrive(request)
  }

  /** Its caller does not want it any more; false when it is not waiting. */
  withdraw(_request: SimulatedRequest): boolean {
    return false
  }

  /** A batch starts that waited behind a run. */
  started(_requests: readonly SimulatedRequest[]): void {}

  /** It has not, and waits in the queue again. */
  putBack(_requests: readonly SimulatedRequest[]): void {}

  /** All requests of this instant have arrived. */
  flush(): void {}

  /** Closes the next batch for an instance that is idle, or would start it in so many milliseconds. */
  abstract take(idle: boolean, startsInMs: number): SimulatedRequest[] | null

  /** What a run is expected to take, in milliseconds; 0 when the policy does not look ahead. */
  expectedMs(_rows: number, _bucketKey: string): number {
    return 0
  }

  /** A run of this model has ended. */
  ran(_requests: readonly SimulatedRequest[], _rows: number, _tookMs: number): void {}
}
