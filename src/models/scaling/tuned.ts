import type { Measured } from './throughput-window.ts'
import type { Served } from './trial-bounds.ts'

/** What is tuned. */
export interface Tuned extends Measured, Served {
  /** Whether a change of the instances is under way, whoever asked for it. */
  readonly changing: boolean
  /** Whether no two instances share a worker. */
  readonly haveOwnWorkers: boolean
  /** How many rows a batch may have. */
  readonly maxBatchSize: number
  capBatches(rows: number): void
  /** Has so many instances divide the cores among them; resolves when they serve. */
  divideCores(instances: number): Promise<void>
  /** Bytes of memory that the process has. */
  memoryBytes(): number
}
