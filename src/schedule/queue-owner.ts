import type { BatchLimits } from '../options/batching.ts'
import type { QueueExit, WaitingRequest } from '../request/infer-request.ts'

/** What a queue asks of its owner. */
export interface QueueOwner<E extends WaitingRequest> {
  /** `entry` left the queue for good without a batch; settle it. */
  dropped(entry: E, why: QueueExit): void
  /** Takes the batch back of which `entry` is a part and that was handed ahead, by `putBack`; false when it has started. */
  takeBack(entry: E): boolean
  /** A queue delay ran out: offer the queue an idle instance again. */
  wake(): void
}

/** A queue's settings. */
export interface QueueOptions extends BatchLimits {
  /** For tests: nothing is sent until so many requests have waited at once; 0 for no hold. */
  readonly holdUntilQueued: number
}
