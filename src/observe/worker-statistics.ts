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

/** The statistics of workers, in their order. Places of one name are one thread: the application's, which runs any number of functions. */
export function workerStatistics(places: readonly Place[]): WorkerStatistics[] {
  const workers = new Map<string, WorkerStatistics>()
  for (const { name, sessions, busyShare, restarts } of places) {
    const same = workers.get(name) ?? { worker: name, instances: 0, busyShare: 0, restarts: 0 }
    workers.set(name, {
      ...same,
      instances: same.instances + sessions,
      busyShare: Math.min(1, same.busyShare + busyShare),
      restarts: same.restarts + restarts,
    })
  }
  return [...workers.values()]
}
