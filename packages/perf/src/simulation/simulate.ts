import { mulberry32, type LevelOptions, type Arrival } from 'zerohop/internals'
import {
  closedTraffic,
  type OpenArrivals,
  openTraffic,
  RecordedTraffic,
  type RowShare,
  schedule,
  type Traffic,
} from './traffic.ts'
import { constantDelays, noOverheads, type Overheads, recordedDelays } from './delays.ts'
import { EngineQueue, oneLevel, TargetQueue } from './simulated-queue.ts'
import { RecordedDurations, type ServiceTime, ServiceTimes } from './service-times.ts'
import type { RecordedRun } from './recorded-run.ts'
import { simulatedLimits, type SimulatedCosts, withCosts } from './simulated-costs.ts'
import { runSimulation, type SimulationInputs } from './run-simulation.ts'
import type { SimulationResult } from './simulation-result.ts'

/** How requests arrive. */
export type SimulatedArrivals =
  | OpenArrivals
  /** So many callers. Each sends again `thinkMs` (default 0) after its answer. */
  | { readonly kind: 'closed'; readonly callers: number; readonly thinkMs?: number }
  /** As recorded, in order of `atUs`, `speed` times as fast (default 1). */
  | { readonly kind: 'recorded'; readonly arrivals: readonly Arrival[]; readonly speed?: number }

/** What to simulate: one model's requests, in a configuration, with the measured times of its runs. */
export interface SimulationOptions {
  readonly arrivals: SimulatedArrivals
  /** Number of requests; a recording determines it. Default: 10 000. */
  readonly requests?: number
  /** Rows of requests that are not recorded. Default: 1. */
  readonly rows?: readonly RowShare[]
  /**
   * Costs of requests, and how they limit batches. `serviceTimes` are then by the cost of a batch, instead of
   * its rows. Default: no costs.
   */
  readonly costs?: SimulatedCosts
  /**
   * Run times alone on the machine, ascending by rows; other sizes are interpolated. Or recorded runs, at
   * least one, from which their mutual slowdown is also determined.
   */
  readonly serviceTimes: readonly ServiceTime[] | { readonly recorded: readonly RecordedRun[] }
  /** Variation of runs of one size without `samplesMs`: 0.1 for about 10 %. Default: 0. */
  readonly jitter?: number
  /**
   * Factors by which runs get slower when 1, 2, ... instances run at once; the last one also holds for more.
   * Default: as recorded, or no slowdown.
   */
  readonly slowdown?: readonly number[]
  /** Costs of requests and batches besides their runs. Default: none. */
  readonly overheads?: Overheads
  readonly instances: number
  /** In rows. */
  readonly maxBatchSize: number
  /** Whether requests share batches. Default: true. */
  readonly joinRequests?: boolean
  /** Whether requests with more rows than a batch may have are split. Default: false. */
  readonly splitOversized?: boolean
  /** Default: `[maxBatchSize]`. */
  readonly preferredBatchSizes?: readonly number[]
  /** Default: 0. */
  readonly maxQueueDelayMs?: number
  /**
   * As in a model's configuration: it determines the batch size, and late requests are refused. Default:
   * none.
   */
  readonly latencyTargetMs?: number
  /** Priorities, timeouts and limits of the queue. Default: equal requests, without limits. */
  readonly levels?: LevelOptions
  /** Seed of requests and run times; equal seeds give equal results. Default: 1. */
  readonly seed?: number
}

/**
 * Predicts how a configuration serves a load, with the library's own queue on a virtual clock. Takes about a
 * second for a million requests.
 *
 * @throws {RangeError} if a request has more rows than a batch may have.
 */
export function simulate(options: SimulationOptions): SimulationResult {
  const {
    preferredBatchSizes = [],
    maxQueueDelayMs = 0,
    latencyTargetMs = 0,
    joinRequests = true,
    splitOversized = false,
    seed = 1,
    instances,
    maxBatchSize,
  } = options
  const overheads = { ...noOverheads, ...options.overheads }
  const { durations, slowdown, delays } = measuredOf(options, overheads, seed + 1)
  return runSimulation({
    traffic:
      options.costs === undefined
        ? trafficOf(options, seed)
        : withCosts(trafficOf(options, seed), options.costs.mix, mulberry32(seed + 3)),
    models: 1,
    settings: {
      maxBatchSize,
      joinRequests,
      preferredBatchSizes,
      maxQueueDelayMs,
      instances,
      targetMs: latencyTargetMs > 0 ? latencyTargetMs : Infinity,
      cost: simulatedLimits(options.costs),
    },
    levels: options.levels ?? oneLevel,
    splitOversized,
    costs: options.costs,
    durations,
    calibration: measuredOf(options, overheads, seed + 2).durations,
    slowdown: options.slowdown ?? slowdown,
    overheads,
    delays,
    timelineMs: 0,
    makeQueue: (context) =>
      latencyTargetMs > 0 || hasDeadlines(options.arrivals)
        ? new TargetQueue(context)
        : new EngineQueue(context),
  })
}

function measuredOf(
  { serviceTimes, jitter = 0, instances }: SimulationOptions,
  overheads: Required<Overheads>,
  seed: number,
): Pick<SimulationInputs, 'durations' | 'slowdown' | 'delays'> {
  if (!('recorded' in serviceTimes))
    return {
      durations: new ServiceTimes(serviceTimes, jitter, [], seed),
      slowdown: [],
      delays: constantDelays(overheads),
    }
  const { recorded } = serviceTimes
  const durations = new RecordedDurations(recorded, seed)
  return { durations, slowdown: durations.slowdown(instances), delays: recordedDelays(recorded, seed) }
}

function trafficOf(
  { arrivals, requests = 10_000, rows = [{ rows: 1, share: 1 }] }: SimulationOptions,
  seed: number,
): Traffic {
  switch (arrivals.kind) {
    case 'closed':
      return closedTraffic(arrivals.callers, requests, arrivals.thinkMs ?? 0, rows, mulberry32(seed))
    case 'recorded':
      return new RecordedTraffic(arrivals.arrivals, arrivals.speed ?? 1)
    default:
      return openTraffic(schedule({ arrivals, requests, rows, burst: 0, loadSteps: [], models: 1, seed }))
  }
}

function hasDeadlines(arrivals: SimulatedArrivals): boolean {
  return arrivals.kind === 'recorded' && arrivals.arrivals.some(({ deadlineMs }) => deadlineMs !== undefined)
}
