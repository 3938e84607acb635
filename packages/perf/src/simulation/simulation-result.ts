import type { SimulatedRequest } from './simulated-queue.ts'

/** The result of a simulation. Latencies are `null` if nothing was answered. */
export interface SimulationResult {
  readonly targetMs: number
  /** Each was answered, refused at arrival, or dropped from the queue. */
  readonly requests: number
  readonly answered: number
  readonly refused: number
  readonly dropped: number
  /** Answered, but not within the target. */
  readonly late: number
  readonly meanMs: number | null
  readonly p50Ms: number | null
  readonly p90Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
  /** Answers per second. */
  readonly throughputPerSecond: number
  /** Rows answered per second. */
  readonly rowsPerSecond: number
  /** Answers within the target, per second. */
  readonly goodputPerSecond: number
  /** Answers within the target, as a share of all requests. */
  readonly goodputShare: number
  readonly meanBatchRows: number
  /** Runs by rows. */
  readonly batches: Readonly<Record<number, number>>
  /** Average and largest cost of a batch, and the share of padding in it; `null` without costs. */
  readonly costs: {
    readonly meanBatchCost: number
    readonly largestBatchCost: number
    readonly paddingShare: number
  } | null
  /** Of the instances, while there were requests. */
  readonly utilisation: number
  /** Most requests waiting at once. */
  readonly maxQueued: number
  /** From the start to the last answer. */
  readonly simulatedSeconds: number
  readonly wallSeconds: number
  /** Empty unless requested. */
  readonly timeline: readonly Interval[]
}

/** Summarises what was recorded. */
export function summarise(
  targetMs: number,
  instances: number,
  record: SimulationRecord,
  busyMs: number,
  wallMs: number,
): SimulationResult {
  const { answeredCount: answered, lateCount: late, runs, lastAnswerMs, runsByRows, costs } = record
  const sortedMs = record.latenciesMs.subarray(0, answered).sort()
  const seconds = lastAnswerMs / 1000
  const perSecond = (count: number) => (seconds === 0 ? 0 : count / seconds)
  const batches: Record<number, number> = {}
  let rows = 0
  for (const [size, count] of [...runsByRows].sort(([a], [b]) => a - b)) {
    batches[size] = count
    rows += size * count
  }
  return {
    targetMs,
    requests: record.requests,
    answered,
    refused: record.refusedCount,
    dropped: record.droppedCount,
    late,
    meanMs: answered === 0 ? null : sortedMs.reduce((sum, ms) => sum + ms, 0) / answered,
    ...quantilesOf(sortedMs),
    throughputPerSecond: perSecond(answered),
    rowsPerSecond: perSecond(record.answeredRows),
    goodputPerSecond: perSecond(answered - late),
    goodputShare: record.requests === 0 ? 0 : (answered - late) / record.requests,
    meanBatchRows: runs === 0 ? 0 : rows / runs,
    batches,
    costs:
      costs.runs === 0
        ? null
        : {
            meanBatchCost: costs.runs / runs,
            largestBatchCost: costs.largest,
            paddingShare: 1 - costs.own / costs.runs,
          },
    utilisation: lastAnswerMs === 0 ? 0 : busyMs / (instances * lastAnswerMs),
    maxQueued: record.maxQueued,
    simulatedSeconds: seconds,
    wallSeconds: wallMs / 1000,
    timeline: record.timeline,
  }
}

/** Quantiles of latencies, which are sorted; `null` without latencies. */
export function quantilesOf(
  sortedMs: Float64Array,
): Pick<SimulationResult, 'p50Ms' | 'p90Ms' | 'p95Ms' | 'p99Ms' | 'maxMs'> {
  const quantile = (q: number) => sortedMs[Math.max(0, Math.ceil(q * sortedMs.length) - 1)] ?? null
  return {
    p50Ms: quantile(0.5),
    p90Ms: quantile(0.9),
    p95Ms: quantile(0.95),
    p99Ms: quantile(0.99),
    maxMs: quantile(1),
  }
}

/** Figures of one interval: requests by arrival, runs by start. */
export interface Interval {
  readonly fromMs: number
  offered: number
  answered: number
  /** Answered, but not within the target. */
  late: number
  refused: number
  dropped: number
  runs: number
  rows: number
}

/** Records the outcome of every request. */
export class SimulationRecord {
  requests = 0
  answeredCount = 0
  answeredRows = 0
  lateCount = 0
  refusedCount = 0
  droppedCount = 0
  runs = 0
  /** Over all runs: the requests' own costs, the costs of the runs, and the largest cost of a run. */
  readonly costs = { own: 0, runs: 0, largest: 0 }
  maxQueued = 0
  lastAnswerMs = 0
  readonly timeline: Interval[] = []
  /** Latencies in order of the answers. */
  readonly latenciesMs: Float64Array
  /** Runs by rows. */
  readonly runsByRows = new Map<number, number>()
  readonly #arrivalsMs: Float64Array
  /** By request: how many of its parts are still to be answered. */
  readonly #open: Uint32Array
  /** Cancelled requests. Their parts that still run are not counted. */
  readonly #withdrawn = new Set<number>()
  readonly #targetMs: number
  readonly #timelineMs: number
  #queued = 0

  /** @param count most requests that will arrive. */
  constructor(count: number, targetMs: number, timelineMs: number) {
    this.latenciesMs = new Float64Array(count)
    this.#arrivalsMs = new Float64Array(count)
    this.#open = new Uint32Array(count)
    this.#targetMs = targetMs
    this.#timelineMs = timelineMs
  }

  arrived(index: number, atMs: number): void {
    this.requests++
    this.#arrivalsMs[index] = atMs
    this.#open[index] = 1
    this.#note(atMs, 'offered')
  }

  /** A request waits, in so many parts. */
  accepted(index: number, parts: number): void {
    this.#open[index] = parts
    this.#queued += parts
    this.maxQueued = Math.max(this.maxQueued, this.#queued)
  }

  refused(request: SimulatedRequest): void {
    this.#end(request)
    this.refusedCount++
    this.#note(this.#arrivalsMs[request.index]!, 'refused')
  }

  /** A request, or a part of one, left the queue without a run. Returns whether that ends the request. */
  dropped(request: SimulatedRequest): boolean {
    this.#queued--
    return this.withdrawn(request)
  }

  /** A request is cancelled. Returns whether it was still open. */
  withdrawn({ index }: SimulatedRequest): boolean {
    if (this.#open[index] === 0) return false
    this.#open[index] = 0
    this.#withdrawn.add(index)
    this.droppedCount++
    this.#note(this.#arrivalsMs[index]!, 'dropped')
    return true
  }

  started(requests: number, rows: number, atMs: number): void {
    this.#queued -= requests
    this.runs++
    this.runsByRows.set(rows, (this.runsByRows.get(rows) ?? 0) + 1)
    this.#note(atMs, 'runs')
    this.#note(atMs, 'rows', rows)
  }

  /** Records the cost of a run. */
  costed({ ownCost, batchCost }: { readonly ownCost: number; readonly batchCost: number }): void {
    const { costs } = this
    costs.own += ownCost
    costs.runs += batchCost
    costs.largest = Math.max(costs.largest, batchCost)
  }

  /** Returns whether that ends the request: it may have been cancelled, or have other parts. */
  answered(request: Pick<SimulatedRequest, 'index' | 'wholeRows'>, atMs: number): boolean {
    const { index } = request
    if (this.#withdrawn.has(index)) return false
    if (this.#open[index]! > 1) {
      this.#open[index]!--
      return false
    }
    this.#end(request)
    const arrivedMs = this.#arrivalsMs[index]!
    const latencyMs = atMs - arrivedMs
    this.latenciesMs[this.answeredCount++] = latencyMs
    this.answeredRows += request.wholeRows
    this.lastAnswerMs = Math.max(this.lastAnswerMs, atMs)
    this.#note(arrivedMs, 'answered')
    if (latencyMs <= this.#targetMs) return true
    this.lateCount++
    this.#note(arrivedMs, 'late')
    return true
  }

  #end({ index }: Pick<SimulatedRequest, 'index'>): void {
    if (this.#open[index] === 0) throw new Error(`request ${index} has ended twice`)
    this.#open[index] = 0
  }

  /** Counts in the interval of a moment. */
  #note(atMs: number, what: Exclude<keyof Interval, 'fromMs'>, count = 1): void {
    const lengthMs = this.#timelineMs
    if (lengthMs === 0) return
    const { timeline } = this
    const counts = { offered: 0, answered: 0, late: 0, refused: 0, dropped: 0, runs: 0, rows: 0 }
    for (let next = timeline.length; next * lengthMs <= atMs; next++)
      timeline.push({ fromMs: next * lengthMs, ...counts })
    timeline[Math.floor(atMs / lengthMs)]![what] += count
  }
}

/** How many of the ascending numbers are at most `limit`. */
export function countUpTo(ascending: readonly number[], limit: number): number {
  let [low, high] = [0, ascending.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (ascending[middle]! <= limit) low = middle + 1
    else high = middle
  }
  return low
}
