import type { ModelConfig } from 'zerohop'
import { type Configuration, isOf, type Layout, saturating } from './configuration.ts'
import { firstWarmupMs, type ModelProcesses } from './measuring-process.ts'
import { nextPoint, type PointToCome, pointToRepeat } from './next-point.ts'
import type { Measurement } from './outcome.ts'
import type { TimeBudget } from './tune-settings.ts'

/** Inputs of calibration. */
interface CalibrationTask {
  readonly layouts: readonly Layout[]
  readonly batchSizes: readonly number[]
  readonly rowsPerRequest: number
  readonly processes: ModelProcesses
  readonly configOf: (configuration: Configuration) => ModelConfig
  /**
   * Most memory of the process. With this limit, no size is measured in a process that has had larger
   * batches, as it keeps their memory.
   */
  readonly memoryBytes: number | undefined
  /** For the whole calibration. Time is only saved once something has been measured. */
  readonly budget: TimeBudget
  readonly wholeBudget: TimeBudget
  readonly signal: AbortSignal
  /** Known points; measured ones are added. */
  readonly points: CalibrationPoint[]
  onPoint(point: CalibrationPoint): void
}

const leastWarmupMs = 60
const leastWindowMs = 200
/** Runs per instance that fit into a window, and runs until a measurement ends. */
const runsInWindow = 3
const runsToEnd = 3
/** Largest share of the remaining total time for one batch size. */
const mostOfTheTime = 0.3

/**
 * Measures the times of full batches, by layout and batch size; see {@link nextPoint} and
 * {@link pointToRepeat}. It uses one process per layout; models with different batch sizes share a session
 * there.
 */
export async function calibrate(task: CalibrationTask): Promise<void> {
  const { layouts, batchSizes, processes, budget, wholeBudget, signal, points, rowsPerRequest, memoryBytes } =
    task
  const kept = points.filter((point) => point.isOwnMemory || withinMemory(point, memoryBytes) === point)
  points.splice(0, Infinity, ...kept) // sizes that failed beside others are measured alone
  const mayMeasure = (point: PointToCome) => {
    const { costMs } = timesOf(point, points, processes, processOf(point, task))
    return costMs <= (points.length === 0 ? wholeBudget.leftMs : budget.leftMs * mostOfTheTime)
  }
  const nextOne = () => {
    const judged = points.map((point) => withinMemory(point, memoryBytes))
    return nextPoint(judged, layouts, batchSizes, mayMeasure) ?? pointToRepeat(judged, layouts, mayMeasure)
  }
  for (let next = nextOne(); next !== null && !signal.aborted; next = nextOne()) {
    const process = processOf(next, task)
    const { warmupMs, windowMs, costMs } = timesOf(next, points, processes, process)
    const { instances, threads, maxBatchSize } = next
    const configuration = { instances, threads, maxBatchSize, maxQueueDelayMs: 0 }
    const found = await processes.measure({
      process,
      model: String(next.maxBatchSize),
      config: task.configOf(configuration),
      load: { concurrency: saturating(configuration, rowsPerRequest) },
      warmupMs,
      windowMs,
      expectedMs: costMs,
      leftMs: wholeBudget.leftMs,
    })
    // A measurement that ran out of time, or was aborted, has not failed.
    if (signal.aborted || (found.type === 'failed' && wholeBudget.leftMs === 0)) return
    const isMeasured = found.type === 'measured' && found.runMs > 0 && found.failure === null
    const { runMs, measurement } = isMeasured ? found : { runMs: null, measurement: null }
    const failure = found.type === 'failed' ? found.message : found.failure
    const isOwnMemory = memoryBytes !== undefined || !hasLarger(points, next)
    const point = add(points, {
      instances,
      threads,
      maxBatchSize,
      runMs,
      measurement,
      failure,
      isOwnMemory,
      times: 1,
    })
    task.onPoint(point)
  }
}

/**
 * Of two measurements of one point the better counts, as other load on the machine makes none faster. A
 * failed one stays failed.
 */
function add(points: CalibrationPoint[], found: CalibrationPoint): CalibrationPoint {
  const { maxBatchSize, runMs } = found
  const index = points.findIndex((point) => isOf(found)(point) && point.maxBatchSize === maxBatchSize)
  const known = points[index]
  if (known === undefined) {
    points.push(found)
    return found
  }
  const better = runMs === null || (known.runMs !== null && known.runMs > runMs) ? found : known
  return (points[index] = { ...better, times: known.times + 1 })
}

/**
 * A point with too much memory counts as failed: the search looks for the best one within the limit, and for
 * none larger.
 */
function withinMemory(point: CalibrationPoint, memoryBytes = Infinity): CalibrationPoint {
  return (point.measurement?.memoryBytes ?? 0) > memoryBytes ? { ...point, measurement: null } : point
}

function hasLarger(points: readonly CalibrationPoint[], next: PointToCome): boolean {
  return points.some((point) => isOf(next)(point) && point.maxBatchSize > next.maxBatchSize)
}

function processOf(next: PointToCome, { points, memoryBytes }: CalibrationTask): string {
  const layout = `${next.instances} x ${next.threads}`
  return memoryBytes !== undefined && hasLarger(points, next) ? `${layout}, ${next.maxBatchSize}` : layout
}

function timesOf(
  point: PointToCome,
  points: readonly CalibrationPoint[],
  processes: ModelProcesses,
  process: string,
) {
  const runMs = expectedRunMs(point, points)
  const isLiving = processes.isLiving(process)
  const warmupMs = Math.max(leastWarmupMs, runMs)
  const windowMs = Math.max(leastWindowMs, runsInWindow * runMs)
  const startMs = isLiving ? 0 : processes.startMs + firstWarmupMs
  return { warmupMs, windowMs, costMs: startMs + warmupMs + windowMs + runsToEnd * runMs }
}

/**
 * Proportional to the rows of the nearest size, in its layout if possible; nothing is known for the first
 * one.
 */
function expectedRunMs(next: PointToCome, points: readonly CalibrationPoint[]): number {
  const { maxBatchSize } = next
  const measured = points.filter((point) => point.runMs !== null)
  const own = measured.filter(isOf(next))
  const distance = (point: CalibrationPoint) =>
    Math.abs(Math.log2(Math.max(1, point.maxBatchSize) / Math.max(1, maxBatchSize)))
  const [nearest] = (own.length > 0 ? own : measured).toSorted((a, b) => distance(a) - distance(b))
  return nearest === undefined
    ? 0
    : (nearest.runMs! * Math.max(1, maxBatchSize)) / Math.max(1, nearest.maxBatchSize)
}

/** Times of full batches of one size in one layout, with as many callers as keep all instances busy. */
export interface CalibrationPoint extends Layout {
  readonly maxBatchSize: number
  /** Time of an instance per batch, including everything around the run; `null` if it failed. */
  readonly runMs: number | null
  readonly measurement: Measurement | null
  /** Why it failed. */
  readonly failure: string | null
  /** Whether its process had no larger batches before, so that the memory is its own. */
  readonly isOwnMemory: boolean
  /** How often it was measured; the best one counts. */
  readonly times: number
}

/** Measured points, by layout. */
export class Calibration {
  readonly points: readonly CalibrationPoint[]

  constructor(points: readonly CalibrationPoint[]) {
    this.points = points
  }

  /** Measured points of a layout, ascending by batch size. */
  of(layout: Layout): MeasuredPoint[] {
    return this.points
      .filter(isOf(layout))
      .filter((point): point is MeasuredPoint => point.runMs !== null)
      .sort((a, b) => a.maxBatchSize - b.maxBatchSize)
  }

  /** Layouts with measured points. */
  get layouts(): Layout[] {
    const measured = this.points.filter(({ runMs }) => runMs !== null)
    return measured
      .filter((point, index) => measured.findIndex(isOf(point)) === index)
      .map(({ instances, threads }) => ({ instances, threads }))
  }

  /**
   * Run time of a batch size, or of the nearest size in proportion to its rows; `null` for an unknown layout.
   */
  runMs(layout: Layout, maxBatchSize: number): number | null {
    const points = this.of(layout)
    const above = points.find((point) => point.maxBatchSize >= maxBatchSize)
    if (above !== undefined && above.maxBatchSize === maxBatchSize) return above.runMs
    const below = points.findLast((point) => point.maxBatchSize < maxBatchSize)
    if (below === undefined) return above?.runMs ?? null
    return (below.runMs * Math.max(1, maxBatchSize)) / Math.max(1, below.maxBatchSize)
  }
}

interface MeasuredPoint extends CalibrationPoint {
  readonly runMs: number
  readonly measurement: Measurement
}

/** What a calibration did not find out, in words: layouts without time, and batches that failed. */
export function gapsOf(layouts: readonly Layout[], points: readonly CalibrationPoint[]): string[] {
  const named = ({ instances, threads }: Layout) => `${instances} x ${threads} threads`
  const missing = layouts.filter((layout) => !points.some(isOf(layout))).map(named)
  const failed = points.flatMap((point) =>
    point.failure === null
      ? []
      : [`${named(point)} with batches of ${point.maxBatchSize} failed: ${point.failure}`],
  )
  return [...failed, ...(missing.length > 0 ? [`no time for ${missing.join(', ')}`] : [])]
}
