import { IndexedHeap, type HeapItem } from '../../src/indexed-heap.ts'
import { mulberry32, type Random } from '../../test/models/random.ts'
import type { Scenario } from './scenario.ts'
import { timeOfWork, type Step } from './steps.ts'

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

/** Draws all requests of a scenario. */
export function schedule(scenario: Scenario): Schedule {
  const { arrivals, burst, models } = scenario
  const coming = arrivals.kind === 'trace' ? arrivals.trace.length : scenario.requests
  const count = burst + coming
  const drawn = { count, timesMs: new Float64Array(count), models: new Uint32Array(count), rows: new Uint32Array(count) }
  const random = mulberry32(scenario.seed)
  const drawRows = rowsDrawer(scenario.rows, random)
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
  for (let model = 0; model < models; model++) sources.push(sourceOf(scenario, model))
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
  return { count, timesMs: timesMs.subarray(0, count), models: models.subarray(0, count), rows: rows.subarray(0, count) }
}

function sourceOf({ arrivals, loadSteps, models, seed }: Scenario, model: number): Source {
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

function rowsDrawer(mix: Scenario['rows'], random: Random): () => number {
  if (mix.length === 1) return () => mix[0]!.rows
  const total = mix.reduce((sum, { share }) => sum + share, 0)
  return () => {
    let left = random() * total
    for (const { rows, share } of mix) {
      left -= share
      if (left < 0) return rows
    }
    return mix.at(-1)!.rows
  }
}
