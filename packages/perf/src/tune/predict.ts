import { simulate, type SimulatedArrivals } from '../simulation/simulate.ts'
import type { Calibration } from './batch-times.ts'
import type { Candidate } from './configuration.ts'
import type { Measurement } from './measurement.ts'
import { saturating } from './search-space.ts'

/** Batches of each instance that a simulation goes through; fewer have no percentile to speak of. */
const batches = 40
const leastRequests = 400
const mostRequests = 20_000
/** Two runs make the latency of a request that waited for one: what their sum differs by, to what each does. */
const runsOfALatency = Math.SQRT2
/** Standard deviations between the middle and the 99th of 100. */
const deviationsToP99 = 2.33

/**
 * What a candidate is expected to show, by the times that batches took in its layout, and in one of a single instance with as many threads;
 * `null` where nothing is known of them.
 */
export function predict(
  calibration: Calibration,
  { configuration, load }: Candidate,
  rowsPerRequest: number,
): Measurement | null {
  const { instances, maxBatchSize, maxQueueDelayMs } = configuration
  const crowded = calibration.of(configuration)
  const exact = crowded.find((point) => point.maxBatchSize === maxBatchSize)
  if (exact === undefined) return null
  if (maxQueueDelayMs === 0 && load.concurrency === saturating(configuration, rowsPerRequest))
    return exact.measurement // as it was calibrated
  const alone = calibration.of({ ...configuration, instances: 1 })
  const single = alone.find((point) => point.maxBatchSize === maxBatchSize)
  const table = single === undefined ? crowded : alone
  const rowsOf = (size: number) => Math.max(1, size, rowsPerRequest)
  const limit = rowsOf(maxBatchSize)
  const requests = Math.min(
    mostRequests,
    Math.max(leastRequests, (batches * instances * limit) / rowsPerRequest, 10 * (load.concurrency ?? 0)),
  )
  const arrivals: SimulatedArrivals =
    load.rate === undefined
      ? { kind: 'closed', callers: load.concurrency }
      : { kind: 'poisson', ratePerSecond: load.rate }
  const found = simulate({
    arrivals,
    requests: Math.round(requests),
    rows: [{ rows: rowsPerRequest, share: 1 }],
    serviceTimes: table.map(({ maxBatchSize: size, runMs }) => ({ rows: rowsOf(size), ms: runMs })),
    jitter: jitterOf(exact.measurement),
    slowdown: slowdownOf(single?.runMs ?? exact.runMs, exact.runMs, instances),
    instances,
    maxBatchSize: limit,
    maxQueueDelayMs,
  })
  return {
    rowsPerSecond: found.rowsPerSecond,
    p50Ms: found.p50Ms ?? Infinity,
    p99Ms: found.p99Ms ?? Infinity,
    memoryBytes: exact.measurement.memoryBytes,
    meanBatchRows: found.meanBatchRows,
    failures: 0,
  }
}

/** What batches take when 1, 2 ... all instances run, in times of what they take alone. */
function slowdownOf(aloneMs: number, crowdedMs: number, instances: number): number[] {
  if (instances === 1) return []
  const factor = Math.max(1, crowdedMs / aloneMs)
  return Array.from({ length: instances }, (_, others) => 1 + ((factor - 1) * others) / (instances - 1))
}

/** By how much runs differ, by what the latencies of full batches did. */
function jitterOf({ p50Ms, p99Ms }: Measurement): number {
  if (!(p50Ms > 0)) return 0
  return Math.min(0.5, (Math.log(p99Ms / p50Ms) / deviationsToP99) * runsOfALatency)
}
