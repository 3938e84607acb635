/** How much more a model can take; see `Model.capacity`. */
export interface ModelCapacity {
  /** Instances that serve. */
  readonly instances: number
  /** Most rows in one run; 0 for a model whose requests are not joined. */
  readonly maxBatchSize: number
  /** Requests accepted and not started. */
  readonly waiting: number
  /** Batches that run. */
  readonly running: number
  /** Requests of the default level that would be accepted now; `Infinity` without a `maxQueueSize`. */
  readonly free: number
  /** Requests worked off per second while there was work, from the last batches; 0 before the first. */
  readonly requestsPerSecond: number
  /**
   * In how many milliseconds one more request would be answered, by the times of earlier runs; 0 when nobody can tell:
   * before the first, and when no instance is left, so that {@link ModelCapacity.instances} is 0 too.
   */
  readonly estimatedMs: number
}
