import type { ModelConfig } from 'zerohop'
import { type Configuration, type Layout, saturating } from './configuration.ts'
import { firstWarmupMs, type ModelProcesses } from './measuring-process.ts'
import { nextPoint, type PointToCome, pointToRepeat } from './next-point.ts'
import type { Measurement } from './outcome.ts'
import type { TimeBudget } from './tune-settings.ts'

/** What calibrating works with. */
interface CalibrationTask {
  readonly layouts: readonly Layout[]
  readonly batchSizes: readonly number[]
  readonly rowsPerRequest: number
  readonly processes: ModelProcesses
  readonly configOf: (configuration: Configuration) => ModelConfig
  /** Most memory of the process. Where it is bound nobody's is measured in a process that has had larger batches, and keeps what they took. */
  readonly memoryBytes: number | undefined
  /** For all of it; until something was measured there is nothing to save time for. */
  readonly budget: TimeBudget
  readonly wholeBudget: TimeBudget
  readonly signal: AbortSignal
  /** What is known already; what is measured is added. */
  readonly points: CalibrationPoint[]
  onPoint(point: CalibrationPoint): void
}

const leastWarmupMs = 60
const leastWindowMs = 200
/** Runs that a window has time for, of each instance, and runs that it takes to come to an end. */
const runsInWindow = 3
const runsToEnd = 3
/** Of the time that is left for all, what one batch size may take. */
const mostOfTheTime = 0.3
/** One that has not come to an end after so many times what was expected hangs. */
const patience = 10
const leastPatienceMs = 10_000

/**
 * Measures what full batches take, by layouts and batch sizes; see {@link nextPoint} and {@link pointToRepeat}. One process for each layout, whose models of different
 * batch sizes share a session.
 */
export async function calibrate(task: CalibrationTask): Promise<void> {
  const { layouts, batchSizes, processes, budget, wholeBudget, signal, points, rowsPerRequest, memoryBytes } =
    task
  const kept = points.filter((point) => point.isOwnMemory || withinMemory(point, memoryBytes) === point)
  points.splice(0, Infinity, ...kept) // what others were too large for is measured alone
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
      config: { ...task.configOf(configuration), checkRows: false },
      load: { concurrency: saturating(configuration, rowsPerRequest) },
      warmupMs,
      windowMs,
      limitMs: Math.min(wholeBudget.leftMs, Math.max(leastPatienceMs, patience * costMs)),
    })
    // What had no time left, or was ended by the user, has not failed.
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

/** Of two measurements of one point the better counts: what the machine does beside makes none faster. One that failed has failed. */
function add(points: CalibrationPoint[], found: CalibrationPoint): CalibrationPoint {
  const { instances, threads, maxBatchSize, runMs } = found
  const index = points.findIndex(
    (point) =>
      point.instances === instances && point.threads === threads && point.maxBatchSize === maxBatchSize,
  )
  const known = points[index]
  if (known === undefined) {
    points.push(found)
    return found
  }
  const better = runMs === null || (known.runMs !== null && known.runMs > runMs) ? found : known
  return (points[index] = { ...better, times: known.times + 1 })
}

/** What takes too much memory is as good as failed: the best that does not is looked for, and nothing larger. */
function withinMemory(point: CalibrationPoint, memoryBytes = Infinity): CalibrationPoint {
  return (point.measurement?.memoryBytes ?? 0) > memoryBytes ? { ...point, measurement: null } : point
}

function hasLarger(
  points: readonly CalibrationPoint[],
  { instances, threads, maxBatchSize }: PointToCome,
): boolean {
  return points.some(
    (point) =>
      point.instances === instances && point.threads === threads && point.maxBatchSize > maxBatchSize,
  )
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

/** In proportion to the rows of the size that is nearest, in its layout, or else in any; nothing is known of the first one. */
function expectedRunMs(
  { instances, threads, maxBatchSize }: PointToCome,
  points: readonly CalibrationPoint[],
): number {
  const measured = points.filter((point) => point.runMs !== null)
  const own = measured.filter((point) => point.instances === instances && point.threads === threads)
  const distance = (point: CalibrationPoint) =>
    Math.abs(Math.log2(Math.max(1, point.maxBatchSize) / Math.max(1, maxBatchSize)))
  const [nearest] = (own.length > 0 ? own : measured).toSorted((a, b) => distance(a) - distance(b))
  return nearest === undefined
    ? 0
    : (nearest.runMs! * Math.max(1, maxBatchSize)) / Math.max(1, nearest.maxBatchSize)
}

/** What full batches of one size took in one layout, at as many callers as keep all of its instances busy. */
export interface CalibrationPoint extends Layout {
  readonly maxBatchSize: number
  /** What a batch took of an instance's time, with all that is around its run; `null` where it failed. */
  readonly runMs: number | null
  readonly measurement: Measurement | null
  /** Why it failed. */
  readonly failure: string | null
  /** Whether the memory is its own: its process had no larger batches before. */
  readonly isOwnMemory: boolean
  /** How often it was measured; the better one counts. */
  readonly times: number
}

/** What was measured, by layouts. */
export class Calibration {
  readonly points: readonly CalibrationPoint[]

  constructor(points: readonly CalibrationPoint[]) {
    this.points = points
  }

  /** Those of a layout that were measured, ascending by batch size. */
  of({ instances, threads }: Layout): MeasuredPoint[] {
    const own = this.points.filter((point) => point.instances === instances && point.threads === threads)
    return own
      .filter((point): point is MeasuredPoint => point.runMs !== null)
      .sort((a, b) => a.maxBatchSize - b.maxBatchSize)
  }

  /** Layouts in which something was measured. */
  get layouts(): Layout[] {
    const keys = new Set(
      this.points
        .filter(({ runMs }) => runMs !== null)
        .map(({ instances, threads }) => `${instances} ${threads}`),
    )
    return [...keys].map((key) => {
      const [instances, threads] = key.split(' ').map(Number) as [number, number]
      return { instances, threads }
    })
  }

  /** Of a batch, or of the nearest size by its rows; `null` for a layout of which nothing is known. */
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

/** What a calibration has not found out, in words: layouts that there was no time for, and batches that were not served. */
export function gapsOf(layouts: readonly Layout[], points: readonly CalibrationPoint[]): string[] {
  const named = ({ instances, threads }: Layout) => `${instances} x ${threads} threads`
  const isOf = (layout: Layout) => (point: CalibrationPoint) =>
    point.instances === layout.instances && point.threads === layout.threads
  const missing = layouts.filter((layout) => !points.some(isOf(layout))).map(named)
  const failed = points.flatMap((point) =>
    point.failure === null
      ? []
      : [`${named(point)} with batches of ${point.maxBatchSize} failed: ${point.failure}`],
  )
  return [...failed, ...(missing.length > 0 ? [`no time for ${missing.join(', ')}`] : [])]
}
