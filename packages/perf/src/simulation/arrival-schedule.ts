import { IndexedHeap, type HeapItem, mulberry32 } from 'zerohop/internals'
import { timeOfWork, type Step } from './factor-steps.ts'
import { rowsDrawer, type RowShare } from './row-mix.ts'

/** Requests that come whatever becomes of those before. Rates are requests a second of all models together; each model has an equal part of them. */
export type OpenArrivals =
  | { readonly kind: 'poisson' | 'constant'; readonly ratePerSecond: number }
  /** Poisson for `onMs`, nothing for `offMs`, and again; the models' turns are spread over the cycle. */
  | { readonly kind: 'on-off'; readonly ratePerSecond: number; readonly onMs: number; readonly offMs: number }
  /** Ascending; dealt out to the models in turns. Without `rows` they are drawn. */
  | { readonly kind: 'trace'; readonly trace: readonly { readonly atMs: number; readonly rows?: number }[] }

/** What requests are drawn by. */
interface ScheduleOptions {
  readonly arrivals: OpenArrivals
  /** Requests that come by `arrivals`; a trace has as many as it has. */
  readonly requests: number
  /** Requests at time 0 on top of them, spread over the models. */
  readonly burst: number
  /** Changes of the rate. */
  readonly loadSteps: readonly Step[]
  readonly rows: readonly RowShare[]
  readonly models: number
  readonly seed: number
}

/** Every request that will come, in order of time. */
export interface Schedule {
  readonly count: number
  readonly timesMs: Float64Array
  readonly models: Uint32Array
  readonly rows: Uint32Array
}

/** The requests of one model. */
class Source implements HeapItem {
  readonly model: number
  heapIndex = -1
  nextMs = 0
  readonly #gapMs: () => number
  readonly #timeOf: (workMs: number) => number
  #workMs: number

  constructor(model: number, gapMs: () => number, timeOf: (workMs: number) => number, firstMs: number) {
    this.model = model
    this.#gapMs = gapMs
    this.#timeOf = timeOf
    this.#workMs = firstMs
    this.nextMs = timeOf(firstMs)
  }

  advance(): void {
    this.#workMs += this.#gapMs()
    this.nextMs = this.#timeOf(this.#workMs)
  }
}

/** Draws all requests. */
export function schedule(options: ScheduleOptions): Schedule {
  const { arrivals, burst, models } = options
  const coming = arrivals.kind === 'trace' ? arrivals.trace.length : options.requests
  const count = burst + coming
  const drawn = {
    count,
    timesMs: new Float64Array(count),
    models: new Uint32Array(count),
    rows: new Uint32Array(count),
  }
  const random = mulberry32(options.seed)
  const drawRows = rowsDrawer(options.rows, random)
  for (let index = 0; index < count; index++) {
    drawn.models[index] = index % models
    drawn.rows[index] = drawRows()
  }
  if (arrivals.kind === 'trace') {
    for (const [index, { atMs, rows }] of arrivals.trace.entries()) {
      drawn.timesMs[burst + index] = atMs
      if (rows !== undefined) drawn.rows[burst + index] = rows
    }
    return drawn
  }
  const sources = new IndexedHeap<Source>((a, b) => a.nextMs < b.nextMs)
  for (let model = 0; model < models; model++) sources.push(sourceOf(options, model))
  for (let index = burst; index < count; index++) {
    const source = sources.peek()!
    if (source.nextMs === Infinity) return upTo(index, drawn) // the load has gone to 0 for good
    drawn.timesMs[index] = source.nextMs
    drawn.models[index] = source.model
    source.advance()
    sources.update(source)
  }
  return drawn
}

function upTo(count: number, { timesMs, models, rows }: Schedule): Schedule {
  return {
    count,
    timesMs: timesMs.subarray(0, count),
    models: models.subarray(0, count),
    rows: rows.subarray(0, count),
  }
}

function sourceOf({ arrivals, loadSteps, models, seed }: ScheduleOptions, model: number): Source {
  if (arrivals.kind === 'trace') throw new TypeError('a trace has no source')
  const meanGapMs = (1000 * models) / arrivals.ratePerSecond
  const random = mulberry32(seed * 0x9e3779b1 + model + 1)
  const exponential = () => -Math.log(1 - random()) * meanGapMs
  const stepped = (workMs: number) => stepTime(loadSteps, workMs)
  switch (arrivals.kind) {
    case 'constant':
      return new Source(model, () => meanGapMs, stepped, (meanGapMs * model) / models)
    case 'poisson':
      return new Source(model, exponential, stepped, exponential())
    case 'on-off': {
      const { onMs, offMs } = arrivals
      const phaseMs = ((onMs + offMs) * model) / models
      const doneMs = Math.min(phaseMs, onMs)
      const timeOf = (workMs: number) => {
        const onTimeMs = doneMs + workMs
        return stepped(onTimeMs + Math.floor(onTimeMs / onMs) * offMs - phaseMs)
      }
      return new Source(model, exponential, timeOf, exponential())
    }
  }
}

function stepTime(steps: readonly Step[], workMs: number): number {
  return steps.length === 0 ? workMs : timeOfWork(steps, workMs)
}
