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

/** A candidate, and what it is expected to show. */
export interface Prospect {
  readonly candidate: Candidate
  readonly expected: Measurement
}

/** What prospects are made of. */
interface PruneTask {
  readonly calibration: Calibration
  readonly space: SearchSpace
  readonly goal: Goal
  readonly rowsPerRequest: number
  /** The load, where it was given. */
  readonly load: Load | null
  /** For the simulations; those that there is no time for are left out. */
  readonly budget: TimeBudget
}

/** A delay has to be worth so much to be measured beside none. */
const worthADelay = 0.01
/** Of a bound on latency that is to be kept in the end, what is expected is to keep so much: it is not that exact. */
const latencyShares = [0.9, 0.6]

/**
 * All configurations that were calibrated, with the delays that are worth something, by what the simulator expects of them under the load:
 * the best first. Where the load is free and latency is bound, each has the loads at which it is expected to keep the bound.
 */
export async function prospectsOf(task: PruneTask): Promise<Prospect[]> {
  const { calibration, space, goal, rowsPerRequest, budget } = task
  const found: Prospect[] = []
  // Promising ones first: where time is short the others are left out.
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
      await new Promise((resolve) => setImmediate(resolve)) // others have something to do meanwhile
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

/** The most callers of whom something holds, as far as it holds for few and not for many; at least 1. */
function mostCallers(most: number, holds: (concurrency: number) => boolean): number {
  let [least, above] = [1, most + 1]
  while (above - least > Math.max(1, least / 16)) {
    const middle = (least + above) >> 1
    if (holds(middle)) least = middle
    else above = middle
  }
  return least
}

/** The value of what keeps the bounds; what does not has less the more it is over them. */
function promiseOf(goal: Goal, expected: Measurement): number {
  const excess = excessOf(goal, expected)
  return valueOf(goal, expected) / Math.max(1, excess) ** 4
}

function byPromise(prospects: readonly Prospect[], goal: Goal): Prospect[] {
  return prospects.toSorted((a, b) => promiseOf(goal, b.expected) - promiseOf(goal, a.expected))
}

/** Who is expected to come this close to the best is in the contest, and of a layout one before the others: the simulator may be wrong about a layout. */
const closeEnough = 0.7
const fewestFinalists = 4

/**
 * Who is measured: the best of each layout and the best prospects, as far as they can be afforded. Time that others would take makes the
 * measurements of these longer.
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
