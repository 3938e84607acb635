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
   * In how many milliseconds one more request would be answered, by the times of earlier runs, and of a model that takes encoded images
   * those of the decoder and what waits for it; 0 when nobody can tell:
   * before the first, and when no instance is left, so that {@link ModelCapacity.instances} is 0 too.
   */
  readonly estimatedMs: number
}

/** What a capacity is read from. */
interface Serving {
  readonly instances: { readonly size: number }
  readonly joining: { readonly metadata: { readonly maxBatchSize: number } }
  readonly waiting: number
  readonly running: number
  readonly times: { readonly throughput: { readonly msPerRequest: number } }
  readonly levels: { of(priority: undefined): { readonly room: number } }
  readonly estimatedMs: number
}

/** How much more a model can take now. */
export function capacityOf(serving: Serving): ModelCapacity {
  const { instances, joining, waiting, running, times, levels } = serving
  const { msPerRequest } = times.throughput
  return {
    instances: instances.size,
    maxBatchSize: joining.metadata.maxBatchSize,
    waiting,
    running,
    free: levels.of(undefined).room,
    requestsPerSecond: msPerRequest === 0 ? 0 : 1000 / msPerRequest,
    estimatedMs: serving.estimatedMs,
  }
}
