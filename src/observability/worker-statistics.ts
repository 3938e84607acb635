/** One worker of an engine: a place for a thread, which outlives the threads that are there. */
export interface WorkerStatistics {
  /** As in {@link WorkerEvent}. */
  readonly worker: string
  /** Instances that are there, those included that are being opened. */
  readonly instances: number
  /** The part of the last seconds in which it ran something. */
  readonly busyShare: number
  /** Threads that took the place of one that had died. */
  readonly restarts: number
}

/** What statistics of a worker are read from. */
interface Place {
  readonly name: string
  readonly sessions: number
  readonly busyShare: number
  readonly restarts: number
}

/** The statistics of workers, in their order. */
export function workerStatistics(workers: readonly Place[]): WorkerStatistics[] {
  return workers.map(({ name, sessions, busyShare, restarts }) => ({ worker: name, instances: sessions, busyShare, restarts }))
}
