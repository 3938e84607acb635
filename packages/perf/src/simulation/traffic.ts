import {
  type Arrival,
  type ArrivalRun,
  type HeapItem,
  IndexedHeap,
  mulberry32,
  type Random,
} from 'zerohop/internals'

/** A request that comes. */
export interface Coming {
  /** The number of its model. */
  readonly model: number
  readonly rows: number
  /** Of each row; left out where nothing is said of it. */
  readonly cost?: number
  /** Requests share a batch only where this is equal. */
  readonly bucketKey?: string
  readonly priority?: number | undefined
  readonly timeoutMs?: number | undefined
  readonly deadlineMs?: number | undefined
  /** After what time its encoded images are decoded, until which it waits in the queue and keeps no other waiting. */
  readonly decodeMs?: number | undefined
  /** When it came; left out for when it is taken. Of several that come together, all are there by then. */
  readonly cameMs?: number
  /** After what time its caller withdraws it, unless it has been answered. */
  readonly cancelMs?: number | undefined
  /** Its answer is that of another, and takes so long. */
  readonly sharedMs?: number | undefined
}

/** Where requests come from. */
export interface Traffic {
  /** Requests that will come at most. */
  readonly count: number
  /** When the next one comes that is known of; `Infinity` for none. */
  readonly nextMs: number
  /** Takes it. */
  take(): Coming
  /** The request that came as the `index`-th, counted from 0, has been answered, refused or dropped: whoever waited for it may send another. */
  ended(nowMs: number, index: number): void
}

/** Requests that come when they were drawn to, whatever becomes of those before. */
export class OpenTraffic implements Traffic {
  readonly count: number
  readonly #schedule: Schedule
  #next = 0

  constructor(schedule: Schedule) {
    this.count = schedule.count
    this.#schedule = schedule
  }

  get nextMs(): number {
    return this.#next < this.count ? this.#schedule.timesMs[this.#next]! : Infinity
  }

  take(): Coming {
    const { models, rows } = this.#schedule
    const index = this.#next++
    return { model: models[index]!, rows: rows[index]! }
  }

  ended(): void {}
}

/** Callers of whom each sends a request, waits for what becomes of it, and sends the next. */
export class ClosedTraffic implements Traffic {
  readonly count: number
  readonly #thinkMs: number
  readonly #drawRows: () => number
  /** When callers send again: in order, as each thinks for the same time. */
  readonly #sendsAtMs = new Fifo<number>()
  #left: number

  /** @param thinkMs what a caller takes from an answer to its next request. */
  constructor(callers: number, requests: number, thinkMs: number, mix: readonly RowShare[], random: Random) {
    this.count = this.#left = requests
    this.#thinkMs = thinkMs
    this.#drawRows = rowsDrawer(mix, random)
    for (let caller = 0; caller < callers; caller++) this.#sendsAtMs.push(0)
  }

  get nextMs(): number {
    return this.#left === 0 ? Infinity : (this.#sendsAtMs.at(0) ?? Infinity)
  }

  take(): Coming {
    this.#left--
    this.#sendsAtMs.shift()
    return { model: 0, rows: this.#drawRows() }
  }

  ended(nowMs: number): void {
    this.#sendsAtMs.push(nowMs + this.#thinkMs)
  }
}

/** Requests that come when others were answered. */
interface Released extends HeapItem {
  readonly endedMs: number
  atMs: number
  readonly arrivals: Fifo<{ readonly arrival: number; readonly atMs: number }>
}

/**
 * Requests as they were recorded, at any speed; all of them for one model. Those that were recorded as made on an answer come when
 * that answer is given here: callers in a loop wait for slow answers, and go on sooner after fast ones.
 */
export class RecordedTraffic implements Traffic {
  readonly count: number
  readonly #arrivals: readonly Arrival[]
  readonly #speed: number
  readonly #followers: ReadonlyMap<number, readonly Follower[]>
  /** Those that wait for no answer. */
  readonly #open: readonly number[]
  readonly #released = new IndexedHeap<Released>((a, b) => a.atMs < b.atMs)
  #last: Released | null = null
  /** Of each that came, which of the recorded it is. */
  readonly #came: number[] = []
  #next = 0

  /** @param arrivals in the order of `atUs`. */
  constructor(arrivals: readonly Arrival[], speed: number) {
    this.count = arrivals.length
    this.#arrivals = arrivals
    this.#speed = speed
    this.#followers = followersOf(arrivals)
    const following = new Set(
      [...this.#followers.values()].flatMap((own) => own.map(({ arrival }) => arrival)),
    )
    this.#open = Array.from(arrivals.keys()).filter((index) => !following.has(index))
  }

  get nextMs(): number {
    return Math.min(this.#nextOpenMs, this.#released.peek()?.atMs ?? Infinity)
  }

  get #nextOpenMs(): number {
    const next = this.#open[this.#next]
    return next === undefined ? Infinity : this.#arrivals[next]!.atUs / 1000 / this.#speed
  }

  take(): Coming {
    const released = this.#released.peek()
    let index: number
    let came = {}
    if (released !== null && released.atMs <= this.#nextOpenMs) {
      const { arrival, atMs: cameMs } = released.arrivals.shift()!
      if (released.arrivals.size === 0) this.#released.remove(released)
      ;[index, came] = [arrival, { cameMs }]
    } else index = this.#open[this.#next++]!
    this.#came.push(index)
    const arrival = this.#arrivals[index]!
    const { rows, priority, timeoutMs, deadlineMs, cancelledUs, decodedUs, shared, latencyUs } = arrival
    const cancelMs = cancelledUs === undefined ? undefined : cancelledUs / 1000
    const sharedMs = shared === true && latencyUs !== undefined ? latencyUs / 1000 : undefined
    return {
      model: 0,
      rows,
      bucketKey: bucketOf(arrival),
      priority,
      timeoutMs,
      deadlineMs,
      ...(decodedUs === undefined ? {} : { decodeMs: decodedUs / 1000 }),
      cancelMs,
      sharedMs,
      ...came,
    }
  }

  ended(nowMs: number, index: number): void {
    for (const follower of this.#followers.get(this.#came[index]!) ?? []) this.#release(follower, nowMs)
  }

  /** Those that follow from answers of one moment come together: the library forms no batch before all of them are there. */
  #release({ arrival, afterMs }: Follower, endedMs: number): void {
    const atMs = endedMs + afterMs
    if (this.#last === null || this.#last.endedMs !== endedMs || this.#last.arrivals.size === 0) {
      this.#last = { heapIndex: -1, endedMs, atMs, arrivals: new Fifo() }
      this.#released.push(this.#last)
    }
    this.#last.arrivals.push({ arrival, atMs })
    this.#last.atMs = Math.max(this.#last.atMs, atMs)
    this.#released.update(this.#last)
  }
}

/** Which requests may share a batch: those whose dims are equal but for the rows. */
export function bucketOf({ dims, rows }: Pick<Arrival, 'dims' | 'rows'>): string {
  if (dims === undefined) return ''
  const ofRow = Object.entries(dims).map(([name, of]) => [name, of[0] === rows ? of.slice(1) : of] as const)
  return JSON.stringify(ofRow.sort(([a], [b]) => (a < b ? -1 : 1)))
}

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
interface Schedule {
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

/** Times are written to a tenth of a microsecond, and two of them are added. */
const roundingUs = 0.5
/** Answers of a run are given within that, one after the other. */
const longestGivingUs = 10_000

/** A request that was made on an answer. */
interface Follower {
  readonly arrival: number
  /** From the first answer of the same run until it came. */
  readonly afterMs: number
}

/** Of each request, which others were made on its answer; each follows one before it, and those that follow none that is there follow none. */
export function followersOf(arrivals: readonly Arrival[]): Map<number, Follower[]> {
  const followers = new Map<number, Follower[]>()
  const ends = arrivals.flatMap(({ atUs, latencyUs, cancelledUs }, index) => {
    const tookUs = latencyUs ?? cancelledUs
    return tookUs === undefined ? [] : [{ index, atUs: atUs + tookUs }]
  })
  ends.sort((a, b) => a.atUs - b.atUs)
  const following = arrivals.flatMap(({ atUs, afterAnswerUs }, index) =>
    afterAnswerUs === undefined ? [] : [{ index, atUs, answeredUs: atUs - afterAnswerUs }],
  )
  following.sort((a, b) => a.answeredUs - b.answeredUs || a.index - b.index)
  const givenUs =
    following.length === 0
      ? []
      : arrivals
          .flatMap((arrival) => (arrival.runs ?? []).map((run) => firstGivenUs(arrival, run)))
          .sort((a, b) => a - b)
  let [next, given] = [0, 0]
  for (const { index, atUs, answeredUs } of following) {
    while (next < ends.length && ends[next]!.atUs < answeredUs - roundingUs) next++
    while (given + 1 < givenUs.length && givenUs[given + 1]! <= answeredUs + roundingUs) given++
    const end = ends[next]
    if (end === undefined || end.atUs > answeredUs + roundingUs || end.index >= index) continue
    next++
    const beforeUs = answeredUs - (givenUs[given] ?? -Infinity)
    const fromUs = beforeUs >= -roundingUs && beforeUs < longestGivingUs ? givenUs[given]! : answeredUs
    const own = { arrival: index, afterMs: Math.max(0, atUs - fromUs) / 1000 }
    const others = followers.get(end.index)
    if (others === undefined) followers.set(end.index, [own])
    else others.push(own)
  }
  return followers
}

/** When the first answer of a run was given: that of the request that it is noted with, unless that waited for other runs. */
export function firstGivenUs(
  { atUs, rows: ofRequest, latencyUs }: Arrival,
  { takenAtUs, rows, gatherUs, handOverUs, runUs, wakeUs, scatterUs }: ArrivalRun,
): number {
  const doneUs = takenAtUs + gatherUs + handOverUs + runUs + wakeUs + scatterUs
  const answeredUs = latencyUs === undefined || ofRequest > rows ? doneUs : atUs + latencyUs
  return answeredUs > doneUs && answeredUs < doneUs + longestGivingUs ? answeredUs : doneUs
}

/** First in, first out; taking one out is O(1) however many wait. */
export class Fifo<T> {
  #items: T[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  /** The item that `index` others are before. */
  at(index: number): T | undefined {
    return this.#items[this.#head + index]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#head++]
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}

/** Rows of a request, and what part of the requests has them: parts of whatever the shares add up to. */
export interface RowShare {
  readonly rows: number
  readonly share: number
}

/** Draws rows by their shares. */
function rowsDrawer(mix: readonly RowShare[], random: Random): () => number {
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

/** From `fromMs` on something is `factor` times what it is by default. */
export interface Step {
  readonly fromMs: number
  readonly factor: number
}

/** The factor that holds at a moment; 1 before the first step. Steps are in order of time. */
export function factorAt(steps: readonly Step[], atMs: number): number {
  let factor = 1
  for (const step of steps) {
    if (step.fromMs > atMs) break
    factor = step.factor
  }
  return factor
}

/**
 * When so much has happened as takes `workMs` at factor 1: the time up to which the factor adds up to it. A process
 * whose rate changes is an unchanging one on a clock that runs faster and slower.
 */
export function timeOfWork(steps: readonly Step[], workMs: number): number {
  let doneMs = 0
  let fromMs = 0
  let factor = 1
  for (const step of steps) {
    const untilMs = doneMs + (step.fromMs - fromMs) * factor
    if (untilMs > workMs) break
    doneMs = untilMs
    ;({ fromMs, factor } = step)
  }
  return factor === 0 ? Infinity : fromMs + (workMs - doneMs) / factor
}
