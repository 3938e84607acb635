import type { ModelConfig } from '../index.ts'
import type { CalibrationPoint } from './batch-times.ts'
import type { Configuration } from './configuration.ts'
import type { MeasuringSettings } from './measuring-messages.ts'
import { MeasuringProcess } from './measuring-process.ts'
import { saturating, type Layout } from './search-space.ts'
import type { TimeBudget } from './time-budget.ts'

/** What calibrating works with. */
export interface CalibrationTask {
  readonly layouts: readonly Layout[]
  readonly batchSizes: readonly number[]
  readonly measuring: MeasuringSettings
  readonly configOf: (configuration: Configuration) => ModelConfig
  readonly budget: TimeBudget
  readonly signal: AbortSignal
  /** What is known already. */
  readonly known: readonly CalibrationPoint[]
  /** What a process takes from its start until its model is loaded. */
  readonly startMs: number
  onPoint(point: CalibrationPoint): void
}

const firstWarmupMs = 500
const leastWarmupMs = 60
const leastWindowMs = 200
/** Runs that a window has time for, of each instance. */
const runsInWindow = 3
/** Larger batches are not looked at when two sizes in a row were slower than the best so far by this. */
const slower = 0.9
/** One that has not come to an end after so many times what was expected hangs. */
const patience = 10
const leastPatienceMs = 10_000

/**
 * Measures what full batches of each size take in each layout, the promising layouts first; sizes go up as long as there is something
 * to gain, and time. One process for each layout: its models of different batch sizes share a session.
 */
export async function calibrate(task: CalibrationTask): Promise<void> {
  const { layouts, signal } = task
  for (const [index, layout] of layouts.entries()) {
    if (signal.aborted || task.budget.leftMs === 0) return
    // Each has the same part of the time, and what those before it have left.
    await calibrateLayout(layout, { ...task, budget: task.budget.part(1 / (layouts.length - index)) })
  }
}

async function calibrateLayout(layout: Layout, task: CalibrationTask): Promise<void> {
  const { batchSizes, measuring, configOf, budget, signal, known } = task
  const own = known.filter(({ instances, threads }) => instances === layout.instances && threads === layout.threads)
  let process: MeasuringProcess | null = null
  let loaded: string | null = null
  const stop = () => void process?.end()
  signal.addEventListener('abort', stop)
  try {
    for (const maxBatchSize of batchSizes) {
      if (isPointless(own)) return
      if (own.some((point) => point.maxBatchSize === maxBatchSize)) continue
      const expectedMs = expectedRunMs(own, maxBatchSize)
      const warmupMs = Math.max(process === null ? firstWarmupMs : leastWarmupMs, expectedMs)
      const windowMs = Math.max(leastWindowMs, runsInWindow * expectedMs)
      const costMs = (process === null ? task.startMs : 0) + warmupMs + windowMs + 3 * expectedMs
      if (signal.aborted || costMs > budget.leftMs) return
      process ??= new MeasuringProcess(measuring)
      const limitMs = Math.max(leastPatienceMs, patience * costMs)
      const configuration = { ...layout, maxBatchSize, maxQueueDelayMs: 0 }
      const name = String(maxBatchSize)
      const word = await process.ask({ type: 'load', name, config: { ...configOf(configuration), checkRows: false } }, limitMs)
      if (loaded !== null && word.type !== 'failed') await process.ask({ type: 'unload', name: loaded }, limitMs)
      loaded = name
      const load = { concurrency: saturating(configuration, measuring.requests.rows) }
      const found = word.type === 'failed' ? word : await process.ask({ type: 'measure', name, load, warmupMs, windowMs }, limitMs)
      if (signal.aborted) return
      const isMeasured = found.type === 'measured' && found.runMs > 0 && found.measurement.failures === 0
      const point = isMeasured ? { ...layout, maxBatchSize, runMs: found.runMs, measurement: found.measurement } : { ...layout, maxBatchSize, runMs: null, measurement: null }
      own.push(point)
      task.onPoint(point)
      if (process.hasEnded || found.type === 'failed') return
    }
  } finally {
    signal.removeEventListener('abort', stop)
    await process?.end()
  }
}

/** Of what was measured last, in proportion to its rows; nothing is known of a first one. */
function expectedRunMs(points: readonly CalibrationPoint[], maxBatchSize: number): number {
  const last = points.findLast(({ runMs }) => runMs !== null)
  return last?.runMs == null ? 0 : (last.runMs * maxBatchSize) / Math.max(1, last.maxBatchSize)
}

/** Whether larger batches have nothing to gain, or cannot be run. */
function isPointless(points: readonly CalibrationPoint[]): boolean {
  if (points.some(({ runMs }) => runMs === null)) return true
  const rates = points.map(({ measurement }) => measurement!.rowsPerSecond)
  const best = Math.max(...rates)
  return rates.length > 2 && rates.slice(-2).every((rate) => rate < best * slower)
}
