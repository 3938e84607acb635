import { setImmediate as nextTurn } from 'node:timers/promises'
import { batchSizesToTry, median } from 'zerohop/internals'
import type { Feeds } from 'zerohop'
import type { Overheads } from '../simulation/delays.ts'
import type { ServiceTime } from '../simulation/service-times.ts'
import type { PerfModel } from './open-target.ts'

/** Run times of a model, measured for the simulator. */
interface MeasuredService {
  readonly serviceTimes: readonly ServiceTime[]
  /** Factors by which runs get slower when 1, 2, ... instances run at once. */
  readonly slowdown: readonly number[]
  readonly overheads: Overheads
}

/** How to calibrate a model. */
interface CalibrationSettings {
  /** The sizes 1, 2, 4 ... and this one are measured. */
  readonly maxBatchSize: number
  readonly instances: number
  /** Approximate time for the whole calibration. */
  readonly seconds: number
  /** Makes a request with this number of rows. */
  feedsOf(rows: number): Feeds
  /** The bucket of requests from {@link feedsOf}; omitted if the model has only one. */
  readonly bucketKey?: string
  readonly signal?: AbortSignal
}

/** Requests of one size, measured one after the other. */
interface Measured {
  readonly rows: number
  readonly runMs: number[]
  readonly queuedMs: number[]
  readonly restMs: number[]
}

/** Fewest runs of each size. */
const fewestRuns = 5
const warmUpRuns = 3

/**
 * Measures the runs of each size on an idle machine: alone, and on all instances at once. Each request fills
 * its batch.
 */
export async function calibrateService(
  model: PerfModel,
  settings: CalibrationSettings,
): Promise<MeasuredService> {
  const { maxBatchSize, instances, seconds, feedsOf, bucketKey, signal } = settings
  const sizes = batchSizesToTry(maxBatchSize, [])
  const eachMs = (seconds * 1000) / (sizes.length * (instances > 1 ? 2 : 1) + 1)
  const serviceTimes: ServiceTime[] = []
  const all: Measured[] = []
  const slowdowns: number[] = []
  for (const rows of sizes) {
    const feeds = feedsOf(rows)
    for (let run = 0; run < warmUpRuns; run++) await model.infer(feeds)
    const alone = await measured(model, feeds, rows, 1, eachMs, signal)
    all.push(alone)
    const ms = mean(alone.runMs)
    serviceTimes.push({ rows, ms, samplesMs: alone.runMs, ...(bucketKey === undefined ? {} : { bucketKey }) })
    if (instances === 1) continue
    const together = await measured(model, feeds, rows, instances, eachMs, signal)
    slowdowns.push(median(together.runMs) / median(alone.runMs))
  }
  const betweenMs = await measuredBetweenMs(model, settings, eachMs)
  return {
    serviceTimes,
    slowdown: slowdownOf(slowdowns, instances),
    overheads: { ...overheadsOf(model, all), betweenMs },
  }
}

/**
 * Milliseconds from the end of a run until the prefetched one starts. All instances always have a prefetched batch;
 * the part of their time in which they run nothing, per run, is this gap.
 */
async function measuredBetweenMs(
  model: PerfModel,
  { maxBatchSize, instances, feedsOf, signal }: CalibrationSettings,
  forMs: number,
): Promise<number> {
  const startMs = performance.now()
  const { runMs } = await measured(model, feedsOf(maxBatchSize), maxBatchSize, 2 * instances, forMs, signal)
  const tookMs = performance.now() - startMs
  return runMs.length === 0 ? 0 : Math.max(0, (tookMs * instances) / runMs.length - mean(runMs))
}

async function measured(
  model: PerfModel,
  feeds: Feeds,
  rows: number,
  callers: number,
  forMs: number,
  signal: AbortSignal | undefined,
): Promise<Measured> {
  const found: Measured = { rows, runMs: [], queuedMs: [], restMs: [] }
  const untilMs = performance.now() + forMs
  const call = async () => {
    for (let runs = 0; runs < fewestRuns || performance.now() < untilMs; runs++) {
      if (signal?.aborted) return
      const sentMs = performance.now()
      const { report } = await model.infer(feeds, { report: true })
      const restMs = performance.now() - sentMs - report.queuedMs - report.computeMs
      // Requests that were made at the same moment may have shared a larger run: it says nothing about this size.
      if (report.batchSize === rows) {
        found.runMs.push(report.computeMs)
        found.queuedMs.push(report.queuedMs)
        found.restMs.push(restMs)
      }
      await nextTurn()
    }
  }
  const calls: Promise<void>[] = []
  for (let caller = 0; caller < callers; caller++) {
    calls.push(call())
    await nextTurn() // otherwise they would share a run
  }
  await Promise.all(calls)
  return found
}

/** The slowdown by number of running instances. Each one beyond the first is taken to add the same amount. */
function slowdownOf(atAll: readonly number[], instances: number): number[] {
  if (instances === 1 || atAll.length === 0) return [1]
  const each = Math.max(0, median(atAll) - 1) / (instances - 1)
  return Array.from({ length: instances }, (_, others) => 1 + each * others)
}

/**
 * Gathering and scattering times come from the model's statistics, by batch size. What remains of a request's time is
 * waiting for threads.
 */
function overheadsOf(model: PerfModel, all: readonly Measured[]): Overheads {
  const perBatch = new Map(model.stats().batchStats.map((batch) => [batch.batchSize, batch]))
  const gather = all.map(({ rows }) => meanMs(perBatch.get(rows)?.computeInput))
  const scatter = all.map(({ rows }) => meanMs(perBatch.get(rows)?.computeOutput))
  const [first, last] = [0, all.length - 1]
  const perRow = (ms: readonly number[]) =>
    last === 0 ? 0 : Math.max(0, (ms[last]! - ms[first]!) / (all[last]!.rows - all[first]!.rows))
  const [gatherRowMs, scatterRowMs] = [perRow(gather), perRow(scatter)]
  const restMs = median(all[first]!.restMs)
  return {
    gatherMs: Math.max(0, gather[first]! - gatherRowMs * all[first]!.rows),
    gatherRowMs,
    handOverMs: median(all[first]!.queuedMs),
    wakeMs: Math.max(0, restMs - gather[first]! - scatter[first]!),
    scatterMs: Math.max(0, scatter[first]! - scatterRowMs * all[first]!.rows),
    scatterRowMs,
  }
}

function meanMs(duration: { readonly count: number; readonly ns: number } | undefined): number {
  return duration === undefined || duration.count === 0 ? 0 : duration.ns / duration.count / 1e6
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
