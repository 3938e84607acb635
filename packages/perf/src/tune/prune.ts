import { simulate, type SimulatedArrivals } from '../simulation/simulate.ts'
import type { Calibration } from './calibrate.ts'
import {
  type Candidate,
  type Configuration,
  delaysOf,
  type Load,
  saturating,
  type SearchSpace,
  withBudgets,
} from './configuration.ts'
import type { Measurement } from './outcome.ts'
import { excessOf, type Goal, type TimeBudget, valueOf } from './tune-settings.ts'

/** A candidate and its expected measurement. */
export interface Prospect {
  readonly candidate: Candidate
  readonly expected: Measurement
}

/** Inputs of pruning. */
interface PruneTask {
  readonly calibration: Calibration
  readonly space: SearchSpace
  readonly goal: Goal
  readonly rowsPerRequest: number
  /** The load, if it was given. */
  readonly load: Load | null
  /** Time for simulations. Candidates beyond it are left out. */
  readonly budget: TimeBudget
}

/** A delay must gain this share to be measured in addition to no delay. */
const worthADelay = 0.01
/** Fractions of a latency bound that the prediction must meet, as it is not exact. */
const latencyShares = [0.9, 0.6]

/**
 * All calibrated configurations, with the useful delays, in the order that the simulator predicts under the
 * load, the best first. If the load is free and latency is bounded, each has the loads at which it should
 * meet the bound.
 */
export async function prospectsOf(task: PruneTask): Promise<Prospect[]> {
  const { calibration, space, goal, rowsPerRequest, budget } = task
  const found: Prospect[] = []
  // Promising ones first, as the rest is left out if time is short.
  const points = calibration.layouts
    .flatMap((layout) => calibration.of(layout))
    .sort((a, b) => b.measurement.rowsPerSecond - a.measurement.rowsPerSecond)
  for (const { instances, threads, maxBatchSize, runMs } of points) {
    let without = 0
    for (const maxQueueDelayMs of delaysOf(space, { maxBatchSize, runMs, rowsPerRequest })) {
      if (budget.leftMs === 0) return withBudgets(byPromise(found, goal), space.batchCosts)
      const prospects = underLoads({ instances, threads, maxBatchSize, maxQueueDelayMs }, task)
      const best = Math.max(0, ...prospects.map(({ expected }) => promiseOf(goal, expected)))
      if (maxQueueDelayMs === 0) without = best
      if (maxQueueDelayMs === 0 || space.delaysMs !== undefined || best > without * (1 + worthADelay))
        found.push(...prospects)
      await new Promise((resolve) => setImmediate(resolve)) // lets other work run
    }
  }
  return withBudgets(byPromise(found, goal), space.batchCosts)
}

function underLoads(
  configuration: Configuration,
  { calibration, goal, rowsPerRequest, load }: PruneTask,
): Prospect[] {
  const under = (its: Load): Prospect[] => {
    const candidate = { configuration, load: its }
    const expected = predict(calibration, candidate, rowsPerRequest)
    return expected === null ? [] : [{ candidate, expected }]
  }
  if (load !== null) return under(load)
  const most = saturating(configuration, rowsPerRequest)
  const { p99Ms } = goal
  if (p99Ms === undefined) return under({ concurrency: most })
  const concurrencies = new Set(
    latencyShares.map((share) =>
      mostCallers(
        most,
        (concurrency) => (under({ concurrency })[0]?.expected.p99Ms ?? Infinity) <= p99Ms * share,
      ),
    ),
  )
  return [...concurrencies].flatMap((concurrency) => under({ concurrency }))
}

/**
 * The highest number of callers for which a condition holds, assuming that it holds for few and not for many;
 * at least 1.
 */
function mostCallers(most: number, holds: (concurrency: number) => boolean): number {
  let [least, above] = [1, most + 1]
  while (above - least > Math.max(1, least / 16)) {
    const middle = (least + above) >> 1
    if (holds(middle)) least = middle
    else above = middle
  }
  return least
}

/** The value of a candidate that meets the bounds; otherwise it is reduced by the excess. */
function promiseOf(goal: Goal, expected: Measurement): number {
  const excess = excessOf(goal, expected)
  return valueOf(goal, expected) / Math.max(1, excess) ** 4
}

function byPromise(prospects: readonly Prospect[], goal: Goal): Prospect[] {
  return prospects.toSorted((a, b) => promiseOf(goal, b.expected) - promiseOf(goal, a.expected))
}

/**
 * Candidates expected within this fraction of the best take part in the contest, and at least one per layout,
 * as the simulator may be wrong about a layout.
 */
const closeEnough = 0.7
const fewestFinalists = 4

/**
 * The candidates to measure: the best of each layout and the best prospects, within the available time. Fewer
 * candidates get longer measurements.
 *
 * @param cost of one measurement.
 */
export function finalistsOf(
  prospects: readonly Prospect[],
  goal: Goal,
  affordableMs: number,
  cost: (prospect: Prospect) => number,
): Prospect[] {
  const [first] = prospects
  if (first === undefined) return []
  const layoutOf = ({ candidate: { configuration } }: Prospect) =>
    `${configuration.instances} ${configuration.threads}`
  const isClose = ({ expected }: Prospect) =>
    promiseOf(goal, expected) >= promiseOf(goal, first.expected) * closeEnough
  const heads = prospects.filter(
    (prospect, index) =>
      prospects.findIndex((other) => layoutOf(other) === layoutOf(prospect)) === index && isClose(prospect),
  )
  const chosen: Prospect[] = []
  let leftMs = affordableMs
  for (const prospect of new Set([first, ...heads, ...prospects])) {
    const costMs = cost(prospect)
    if (chosen.length >= 2 && costMs > leftMs) continue
    if (chosen.length === mostFinalists || (chosen.length >= fewestFinalists && !isClose(prospect))) break
    leftMs -= costMs
    chosen.push(prospect)
  }
  return chosen
}

const mostFinalists = 24

/** Batches per instance in a simulation; with fewer a percentile means little. */
const batches = 40
const leastRequests = 400
const mostRequests = 20_000
/**
 * The latency of a waiting request consists of two runs, so the deviation of their sum is this factor of that
 * of each.
 */
const runsOfALatency = Math.SQRT2
/** Standard deviations between the median and the 99th percentile. */
const deviationsToP99 = 2.33

/**
 * The predicted measurement of a candidate, from the batch times in its layout, and in one with a single
 * instance and as many threads; `null` if they are unknown.
 */
function predict(
  calibration: Calibration,
  { configuration, load }: Candidate,
  rowsPerRequest: number,
): Measurement | null {
  const { instances, maxBatchSize, maxQueueDelayMs } = configuration
  const crowded = calibration.of(configuration)
  const exact = crowded.find((point) => point.maxBatchSize === maxBatchSize)
  if (exact === undefined) return null
  if (maxQueueDelayMs === 0 && load.concurrency === saturating(configuration, rowsPerRequest))
    return exact.measurement // calibrated directly
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

/** Factors by which batches get slower when 1, 2, ... instances run at once. */
function slowdownOf(aloneMs: number, crowdedMs: number, instances: number): number[] {
  if (instances === 1) return []
  const factor = Math.max(1, crowdedMs / aloneMs)
  return Array.from({ length: instances }, (_, others) => 1 + ((factor - 1) * others) / (instances - 1))
}

/** The variation of runs, from the latencies of full batches. */
function jitterOf({ p50Ms, p99Ms }: Measurement): number {
  if (!(p50Ms > 0)) return 0
  return Math.min(0.5, (Math.log(p99Ms / p50Ms) / deviationsToP99) * runsOfALatency)
}
