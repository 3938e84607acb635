/** What one instance has done since it began to serve. */
export interface InstanceStatistics {
  /** The model's name and a number, as in Triton and in reports. */
  readonly name: string
  /** The worker that it is on, as in {@link WorkerEvent}; others may be there, too. */
  readonly worker: string
  /** Runs that have ended, those that failed or were made again included. */
  readonly runs: number
  /** Rows of those that gave results. */
  readonly rows: number
  /** What its runs took that have ended, in milliseconds. */
  readonly busyMs: number
  /** For how long it has served, in milliseconds. */
  readonly servingMs: number
  /** The first of these to the second: 1 for one that always ran something. Of a window, the differences of two snapshots tell. */
  readonly busyShare: number
}
