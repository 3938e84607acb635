import type { Measurement } from './measurement.ts'
import type { TuneSettings } from './tune-settings.ts'

/** Where the load is free it is so low that the bound on latency is kept by so much, as the next process is never quite like the last. */
const latencyMargin = 0.95
/** The same of memory: a heap grows for longer than is measured. */
const memoryMargin = 0.97

/** What the best configuration is best at, and what it must keep. */
export interface Goal {
  /** 99 of 100 requests are answered within so many milliseconds. */
  readonly p99Ms?: number | undefined
  /** Most memory of the process. */
  readonly memoryBytes?: number | undefined
  /** Rows a second that are asked for: those who keep up are compared by their p99, and not by how much more they could do. */
  readonly rowsPerSecond?: number | undefined
}

/** What is asked for, with what bounds are kept by. */
export function goalOf({ p99Ms, memoryBytes, rate, concurrency, measuring }: TuneSettings): Goal {
  const isLoadFree = rate === undefined && concurrency === undefined
  return {
    p99Ms: p99Ms === undefined || !isLoadFree ? p99Ms : p99Ms * latencyMargin,
    memoryBytes: memoryBytes === undefined ? undefined : memoryBytes * memoryMargin,
    rowsPerSecond: rate === undefined ? undefined : rate * measuring.requests.rows,
  }
}

/** Of a rate that is asked for, what has to be answered in a window that cuts some requests at its ends. */
const keptUp = 0.97

/** By how much a measurement is worse than what has to be kept: up to 1 it is kept. */
export function excessOf({ p99Ms, memoryBytes, rowsPerSecond }: Goal, measured: Measurement): number {
  if (measured.failures > 0) return Infinity
  return Math.max(
    p99Ms === undefined ? 0 : measured.p99Ms / p99Ms,
    memoryBytes === undefined ? 0 : measured.memoryBytes / memoryBytes,
    rowsPerSecond === undefined ? 0 : (rowsPerSecond * keptUp) / measured.rowsPerSecond,
  )
}

/** How good a measurement is, beside others: twice as good has twice the value. */
export function valueOf({ rowsPerSecond }: Goal, measured: Measurement): number {
  return rowsPerSecond === undefined ? measured.rowsPerSecond : 1 / Math.max(measured.p99Ms, 1e-3)
}
