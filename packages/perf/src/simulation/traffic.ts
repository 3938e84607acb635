import { type Arrival, type ArrivalRun, IndexedHeap, mulberry32, type Random } from 'zerohop/internals'

/** An arriving request. */
export interface Coming {
  /** The number of its model. */
  readonly model: number
  readonly rows: number
  /** Cost of each row; left out without costs. */
  readonly cost?: number
  /** Requests share a batch only if this is equal. */
  readonly bucketKey?: string
  readonly priority?: number | undefined
  readonly timeoutMs?: number | undefined
  readonly deadlineMs?: number | undefined
  /**
   * Milliseconds until its encoded images are decoded. Until then it waits in the queue without delaying
   * others.
   */
  readonly decodeMs?: number | undefined
  /**
   * Arrival time, if it is earlier than the time at which it is taken. Requests that arrive together are
   * taken when all of them are there.
   */
  readonly cameMs?: number
  /** Milliseconds after which its caller cancels it, unless it has been answered. */
  readonly cancelMs?: number | undefined
  /** It shares another request's answer, after this time. */
  readonly sharedMs?: number | undefined
}

/** A source of requests. */
export interface Traffic {
  /** Most requests that will arrive. */
  readonly count: number
  /** When the next known request arrives; `Infinity` for none. */
  readonly nextMs: number
  /** Takes the next request. */
  take(): Coming
  /**
   * The `index`-th request, counted from 0, has been answered, refused or dropped. A caller that waited for
   * it may send another.
   */
  ended(nowMs: number, index: number): void
}

/** Requests that arrive independently of earlier ones. */
export function openTraffic({ count, timesMs, models, rows }: Schedule): Traffic {
  let next = 0
  return {
    count,
    get nextMs() {
      return next < count ? timesMs[next]! : Infinity
    },
    take: () => ({ model: models[next]!, rows: rows[next++]! }),
    ended: () => {},
  }
}

/**
 * Callers that each send a request, wait for its outcome, and send the next.
 *
 * @param thinkMs time of a caller from an answer to its next request.
 */
export function closedTraffic(
  callers: number,
  count: number,
  thinkMs: number,
  mix: readonly RowShare[],
  random: Random,
): Traffic {
  const draw = drawByShare(mix, random)
  /** When callers send again, in order, as each thinks for the same time. */
  const sendsAtMs = new Fifo<number>()
  for (let caller = 0; caller < callers; caller++) sendsAtMs.push(0)
  let left = count
  return {
    count,
    get nextMs() {
      return left === 0 ? Infinity : (sendsAtMs.at(0) ?? Infinity)
    },
    take: () => {
      left--
      sendsAtMs.shift()
      return { model: 0, rows: draw().rows }
    },
    ended: (nowMs) => sendsAtMs.push(nowMs + thinkMs),
  }
}

/** Requests that arrive after answers. */
interface Released {
  /** Kept by the heap. */
  heapIndex: number
  readonly endedMs: number
  atMs: number
  readonly arrivals: Fifo<{ readonly arrival: number; readonly atMs: number }>
}

/**
 * Recorded requests, at any speed, all for one model. Requests that were sent after an answer arrive when
 * that answer is given in the simulation: callers in a loop wait for slow answers, and continue sooner after
 * fast ones.
 */
export class RecordedTraffic implements Traffic {
  readonly count: number
  readonly #arrivals: readonly Arrival[]
  readonly #speed: number
  readonly #followers: ReadonlyMap<number, readonly Follower[]>
  /** Requests that do not wait for an answer. */
  readonly #open: readonly number[]
  readonly #released = new IndexedHeap<Released>((a, b) => a.atMs < b.atMs)
  #last: Released | null = null
  /** By arrival: the index of the recorded request. */
  readonly #came: number[] = []
  #next = 0

  /** @param arrivals in order of `atUs`. */
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
    const toMs = (us: number | undefined) => (us === undefined ? undefined : us / 1000)
    return {
      model: 0,
      rows,
      bucketKey: bucketOf(arrival),
      priority,
      timeoutMs,
      deadlineMs,
      decodeMs: toMs(decodedUs),
      cancelMs: toMs(cancelledUs),
      sharedMs: shared === true ? toMs(latencyUs) : undefined,
      ...came,
    }
  }

  ended(nowMs: number, index: number): void {
    for (const follower of this.#followers.get(this.#came[index]!) ?? []) this.#release(follower, nowMs)
  }

  /**
   * Requests that follow answers of one moment arrive together: the library forms no batch before all of them
   * are there.
   */
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

/** Requests with the same bucket may share a batch: their dims are equal except for the rows. */
export function bucketOf({ dims, rows }: Pick<Arrival, 'dims' | 'rows'>): string {
  if (dims === undefined) return ''
  const ofRow = Object.entries(dims).map(([name, of]) => [name, of[0] === rows ? of.slice(1) : of] as const)
  return JSON.stringify(ofRow.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/**
 * Requests that arrive independently of earlier ones. Rates are requests per second of all models together,
 * divided equally.
 */
export type OpenArrivals =
  | { readonly kind: 'poisson' | 'constant'; readonly ratePerSecond: number }
  /** Poisson for `onMs`, nothing for `offMs`, repeated. The models' phases are spread over the cycle. */
  | { readonly kind: 'on-off'; readonly ratePerSecond: number; readonly onMs: number; readonly offMs: number }
  /** Ascending; assigned to the models in turn. Without `rows` these are random. */
  | { readonly kind: 'trace'; readonly trace: readonly { readonly atMs: number; readonly rows?: number }[] }

/** How to draw requests. */
interface ScheduleOptions {
  readonly arrivals: OpenArrivals
  /** Number of requests by `arrivals`; a trace determines it. */
  readonly requests: number
  /** Additional requests at time 0, spread over the models. */
  readonly burst: number
  /** Changes of the rate. */
  readonly loadSteps: readonly Step[]
  readonly rows: readonly RowShare[]
  readonly models: number
  readonly seed: number
}

/** All requests that will arrive, in order of time. */
interface Schedule {
  readonly count: number
  readonly timesMs: Float64Array
  readonly models: Uint32Array
  readonly rows: Uint32Array
}

/** The requests of one model. */
interface Source {
  /** Kept by the heap. */
  heapIndex: number
  readonly model: number
  nextMs: number
  advance(): void
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
  const draw = drawByShare(options.rows, random)
  for (let index = 0; index < count; index++) {
    drawn.models[index] = index % models
    drawn.rows[index] = draw().rows
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
    if (source.nextMs === Infinity) {
      // The load stays at 0.
      const [timesMs, rows] = [drawn.timesMs.subarray(0, index), drawn.rows.subarray(0, index)]
      return { count: index, timesMs, models: drawn.models.subarray(0, index), rows }
    }
    drawn.timesMs[index] = source.nextMs
    drawn.models[index] = source.model
    source.advance()
    sources.update(source)
  }
  return drawn
}

function sourceOf({ arrivals, loadSteps, models, seed }: ScheduleOptions, model: number): Source {
  if (arrivals.kind === 'trace') throw new TypeError('a trace has no source')
  const meanGapMs = (1000 * models) / arrivals.ratePerSecond
  const random = mulberry32(seed * 0x9e3779b1 + model + 1)
  const exponential = () => -Math.log(1 - random()) * meanGapMs
  const isConstant = arrivals.kind === 'constant'
  const gapMs = isConstant ? () => meanGapMs : exponential
  let timeOf = (workMs: number) => timeOfWork(loadSteps, workMs)
  if (arrivals.kind === 'on-off') {
    const { onMs, offMs } = arrivals
    const phaseMs = ((onMs + offMs) * model) / models
    const doneMs = Math.min(phaseMs, onMs)
    timeOf = (workMs) => {
      const onTimeMs = doneMs + workMs
      return timeOfWork(loadSteps, onTimeMs + Math.floor(onTimeMs / onMs) * offMs - phaseMs)
    }
  }
  let workMs = isConstant ? (meanGapMs * model) / models : exponential()
  return {
    heapIndex: -1,
    model,
    nextMs: timeOf(workMs),
    advance() {
      workMs += gapMs()
      this.nextMs = timeOf(workMs)
    },
  }
}

/** Recorded times are rounded to a tenth of a microsecond, and two are added. */
const roundingUs = 0.5
/** Most time between the first and the last answer of a run. */
const longestGivingUs = 10_000

/** A request that was sent after an answer. */
interface Follower {
  readonly arrival: number
  /** From the first answer of that run until it arrived. */
  readonly afterMs: number
}

/**
 * For each request, those that were sent after its answer. Each follows an earlier request; a request whose
 * predecessor is missing follows none.
 */
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

/**
 * When the first answer of a run was given: that of the request that it is recorded with, unless that waited
 * for other runs.
 */
export function firstGivenUs(
  { atUs, rows: ofRequest, latencyUs }: Arrival,
  { takenAtUs, rows, gatherUs, handOverUs, runUs, wakeUs, scatterUs }: ArrivalRun,
): number {
  const doneUs = takenAtUs + gatherUs + handOverUs + runUs + wakeUs + scatterUs
  const answeredUs = latencyUs === undefined || ofRequest > rows ? doneUs : atUs + latencyUs
  return answeredUs > doneUs && answeredUs < doneUs + longestGivingUs ? answeredUs : doneUs
}

/** First in, first out. Removing an item is O(1) at any length. */
export class Fifo<T> {
  #items: T[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  /** The item at this position, counted from 0. */
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

/** Rows of a request, and the share of requests with so many rows, relative to the sum of all shares. */
export interface RowShare {
  readonly rows: number
  readonly share: number
}

/** Draws one of several. The probability of each is its share of the sum of all shares. */
export function drawByShare<T extends { readonly share: number }>(
  mix: readonly T[],
  random: Random,
): () => T {
  if (mix.length === 1) return () => mix[0]!
  const total = mix.reduce((sum, { share }) => sum + share, 0)
  return () => {
    let left = random() * total
    for (const each of mix) {
      left -= each.share
      if (left < 0) return each
    }
    return mix.at(-1)!
  }
}

/** From `fromMs` on, something is multiplied by `factor`. */
export interface Step {
  readonly fromMs: number
  readonly factor: number
}

/** The factor at a moment; 1 before the first step. Steps are in order of time. */
export function factorAt(steps: readonly Step[], atMs: number): number {
  let factor = 1
  for (const step of steps) {
    if (step.fromMs > atMs) break
    factor = step.factor
  }
  return factor
}

/**
 * The time by which the factor, integrated over time, reaches `workMs`. A process with a changing rate equals
 * one with a constant rate on a clock of changing speed.
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
