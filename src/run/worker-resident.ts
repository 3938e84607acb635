/** What lives on a worker and outlives its threads. */
export interface WorkerResident {
  /** Of its session. */
  readonly id: number
  /** The thread is gone; the next one is being started. */
  lost(reason: string): void
  /** No thread can be had. */
  abandon(reason: string): void
}
