import { capacityRowsPerSecond, type ServiceTable } from '../../packages/perf/src/simulation/service-times.ts'
import type { OpenArrivals, RowShare, Step } from '../../packages/perf/src/simulation/traffic.ts'

export const policyNames = ['none', 'window', 'triton', 'zerohop', 'zerohop-target'] as const
/** How batches are formed. */
export type PolicyName = (typeof policyNames)[number]

/** Everything that a simulation depends on: the same scenario gives the same result. */
export interface Scenario {
  readonly policy: PolicyName
  /** Requests that come by `arrivals`; a trace has as many as it has. */
  readonly requests: number
  /** Requests at time 0 on top of them, spread over the models. */
  readonly burst: number
  readonly arrivals: OpenArrivals
  /** Changes of the rate. */
  readonly loadSteps: readonly Step[]
  /** Rows of a request, and what part of the requests has them. */
  readonly rows: readonly RowShare[]
  readonly service: ServiceTable
  /** By how much runs of one size differ; 0.1 for about 10 %. */
  readonly jitter: number
  /** Changes of what runs take. */
  readonly serviceSteps: readonly Step[]
  /** Instances; every model can run on each of them, one run at a time. */
  readonly instances: number
  readonly models: number
  readonly maxBatchSize: number
  /** Empty for `[maxBatchSize]`. */
  readonly preferredBatchSizes: readonly number[]
  readonly maxQueueDelayMs: number
  /** An answer is good within so many milliseconds of the request. */
  readonly targetMs: number
  readonly seed: number
  /** Length of the intervals for which the result has separate figures; 0 for none. */
  readonly timelineMs: number
}

export const defaultScenario: Scenario = {
  policy: 'zerohop',
  requests: 200_000,
  burst: 0,
  arrivals: { kind: 'poisson', ratePerSecond: 31.2 },
  loadSteps: [],
  rows: [{ rows: 1, share: 1 }],
  service: [
    { rows: 1, ms: 30 },
    { rows: 2, ms: 55 },
    { rows: 4, ms: 105 },
    { rows: 8, ms: 205 },
  ],
  jitter: 0,
  serviceSteps: [],
  instances: 1,
  models: 1,
  maxBatchSize: 8,
  preferredBatchSizes: [],
  maxQueueDelayMs: 10,
  targetMs: 500,
  seed: 1,
  timelineMs: 0,
}

/** Requests a second that all instances can serve with the best batch size. */
export function capacityPerSecond({ service, maxBatchSize, instances, rows }: Scenario): number {
  const shares = rows.reduce((sum, { share }) => sum + share, 0)
  const meanRows = rows.reduce((sum, { rows, share }) => sum + rows * share, 0) / shares
  return (capacityRowsPerSecond(service, maxBatchSize) * instances) / meanRows
}
