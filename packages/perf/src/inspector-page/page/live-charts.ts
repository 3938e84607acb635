import type { Frame } from 'zerohop/internals'
import type { Colour } from '../../web-page/colours.ts'
import type { Unit } from '../../web-page/charts/chart.ts'

type Load = Frame['all']

/** The data of one moment, for all models or the chosen one. */
export interface Moment {
  readonly frame: Frame
  readonly load: Load
}

/** One quantity over the last minutes. */
interface LiveSeries {
  readonly name: string
  readonly colour: Colour
  /** `null` if there was none. */
  of(moment: Moment): number | null
}

/** A chart over time. Areas are stacked. */
export interface LiveChart {
  readonly id: string
  readonly title: string
  readonly label: string
  readonly unit: Unit
  readonly shape: 'lines' | 'areas'
  readonly series: readonly LiveSeries[]
}

const perSecond =
  (count: (window: NonNullable<Load['window']>) => number) =>
  ({ load: { window }, frame: { windowMs } }: Moment) =>
    window === null || windowMs === null || windowMs <= 0 ? null : (1000 * count(window)) / windowMs
const ofWindow =
  (read: (window: NonNullable<Load['window']>) => number | null) =>
  ({ load: { window } }: Moment) =>
    window === null ? null : read(window)

/** Charts of all models, or of the chosen one. */
export const modelCharts: readonly LiveChart[] = [
  {
    id: 'throughput', title: 'Throughput', label: 'Per second', unit: 'count', shape: 'lines',
    series: [
      { name: 'rows', colour: 'third', of: perSecond(({ rows }) => rows) },
      { name: 'requests answered', colour: 'first', of: perSecond(({ answered }) => answered) },
      { name: 'requests failed', colour: 'second', of: perSecond(({ failed }) => failed) },
    ],
  },
  {
    id: 'latency', title: 'Latency', label: 'From the call to the answer', unit: 'microseconds', shape: 'lines',
    series: [
      { name: 'p99', colour: 'p99', of: ofWindow(({ latency }) => latency && latency.p99Us) },
      { name: 'p90', colour: 'p90', of: ofWindow(({ latency }) => latency && latency.p90Us) },
      { name: 'p50', colour: 'p50', of: ofWindow(({ latency }) => latency && latency.p50Us) },
    ],
  },
  {
    id: 'time', title: 'Where time goes', label: 'Mean per request', unit: 'microseconds', shape: 'areas',
    series: [
      { name: 'compute infer', colour: 'infer', of: ofWindow(({ inferUs }) => inferUs) },
      { name: 'compute input', colour: 'input', of: ofWindow(({ inputUs }) => inputUs) },
      { name: 'compute output', colour: 'output', of: ofWindow(({ outputUs }) => outputUs) },
      { name: 'queue', colour: 'queue', of: ofWindow(({ queueUs }) => queueUs) },
      { name: 'overhead', colour: 'overhead', of: ofWindow(({ overheadUs }) => overheadUs) },
    ],
  },
  {
    id: 'size', title: 'Batch size', label: 'Rows in a batch', unit: 'count', shape: 'lines',
    series: [
      { name: 'largest', colour: 'max', of: ofWindow(({ batchSizes }) => batchSizes.at(-1)?.batchSize ?? null) },
      { name: 'mean', colour: 'third', of: ofWindow(({ rows, runs }) => (runs === 0 ? null : rows / runs)) },
    ],
  },
  {
    id: 'queue', title: 'Queue', label: 'At the moment', unit: 'count', shape: 'lines',
    series: [
      { name: 'requests that wait', colour: 'queue', of: ({ load }) => load.waiting },
      { name: 'batches that run', colour: 'infer', of: ({ load }) => load.running },
    ],
  },
] // prettier-ignore

const ofStaging =
  (read: (pool: Frame['staging'][number]) => number) =>
  ({ frame: { staging } }: Moment) =>
    staging.length === 0 ? null : staging.reduce((sum, pool) => sum + read(pool), 0)

/** Charts of the process. */
export const processCharts: readonly LiveChart[] = [
  {
    id: 'loop', title: 'Event-loop delay', label: 'How late timers were, while requests were in flight', unit: 'microseconds', shape: 'lines',
    series: [
      { name: 'longest', colour: 'max', of: ({ frame: { eventLoopDelay } }) => eventLoopDelay && eventLoopDelay.maxUs },
      { name: 'p50', colour: 'p50', of: ({ frame: { eventLoopDelay } }) => eventLoopDelay && eventLoopDelay.p50Us },
    ],
  },
  {
    id: 'memory', title: 'Memory', label: 'Of the process, and what of it is staging', unit: 'bytes', shape: 'lines',
    series: [
      { name: 'resident', colour: 'seventh', of: ({ frame }) => frame.residentBytes },
      { name: 'staging reserved', colour: 'sixth', of: ofStaging(({ reservedBytes }) => reservedBytes) },
      { name: 'staging in use', colour: 'first', of: ofStaging(({ usedBytes }) => usedBytes) },
    ],
  },
] // prettier-ignore

/** Frames kept: two minutes at one per second. */
export const keptFrames = 120

const nothing: Load = { waiting: 0, running: 0, window: null }

/** The last frames. */
export class FrameHistory {
  #frames: Frame[] = []

  get last(): Frame | null {
    return this.#frames.at(-1) ?? null
  }

  add(frame: Frame): void {
    // Frames from before a clock was set back would appear after the new ones.
    if (this.last !== null && frame.atMs < this.last.atMs) this.#frames = []
    this.#frames.push(frame)
    if (this.#frames.length > keptFrames) this.#frames.shift()
  }

  /** The frames' data of all models, or of the chosen one; `null` where frames are missing. */
  moments(chosen: string | null): (Moment | null)[] {
    return this.#frames.flatMap((frame, index) => {
      const before = this.#frames[index - 1]
      const moment = { frame, load: loadOf(frame, chosen) }
      return before !== undefined && frame.atMs - before.atMs > 2.5 * frame.intervalMs
        ? [null, moment]
        : [moment]
    })
  }
}

/** A model's key in the list of choices. */
export function modelKey({ name, version }: { readonly name: string; readonly version: number }): string {
  return `${name} · version ${version}`
}

function loadOf({ all, models }: Frame, chosen: string | null): Load {
  return chosen === null ? all : (models.find((model) => modelKey(model) === chosen) ?? nothing)
}
