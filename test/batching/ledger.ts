import type { BatcherOptions } from '../../src/batching/batcher.ts'
import { QueueEntry, type QueueExit } from '../../src/batching/entry.ts'

/** How a request ended. */
export type Fate = QueueExit | 'result' | 'failed' | 'queue-full'

export class LedgerRequest extends QueueEntry {
  readonly id: number
  fate: Fate | null = null

  constructor(id: number, rows: number, shapeKey: string) {
    super(rows, shapeKey)
    this.id = id
  }
}

type Requests = readonly LedgerRequest[]

export function ensure(condition: boolean, broken: () => string): asserts condition {
  if (!condition) throw new Error(broken())
}

const rowsOf = (requests: Requests): number => requests.reduce((sum, { rows }) => sum + rows, 0)
const named = (requests: Requests): string => `[${requests.map(({ id, rows }) => `#${id}:${rows}`).join(' ')}]`

/**
 * A second account of what waits, kept in plain arrays, against which every batch and every exit is checked. It says
 * what must hold of a batch, not how to find it.
 */
export class Ledger {
  readonly limits: BatcherOptions
  joinRequests: boolean
  readonly lanes = new Map<string, LedgerRequest[]>()
  readonly #fullRows: number

  constructor(limits: BatcherOptions) {
    this.limits = limits
    this.joinRequests = limits.joinRequests
    this.#fullRows = limits.preferredBatchSizes.at(-1) ?? limits.maxBatchSize
  }

  get waiting(): Requests {
    return [...this.lanes.values()].flat()
  }

  settle(request: LedgerRequest, fate: Fate): void {
    ensure(request.fate === null, () => `#${request.id} settled twice: ${request.fate}, then ${fate}`)
    request.fate = fate
  }

  /** True when the lane of `request`, which it joins, now holds a full batch. */
  arrived(request: LedgerRequest): boolean {
    const lane = this.#lane(request.shapeKey)
    lane.push(request)
    return !this.joinRequests || this.isFull(lane)
  }

  requeued(batch: Requests): void {
    for (const request of batch.toReversed()) this.#lane(request.shapeKey).unshift(request)
  }

  dropped(request: LedgerRequest, why: QueueExit, nowMs: number): void {
    const lane = this.#lane(request.shapeKey)
    ensure(lane.includes(request), () => `#${request.id} was dropped as ${why} and did not wait`)
    ensure(why !== 'timeout' || request.deadlineMs <= nowMs, () => `#${request.id} timed out before its deadline`)
    lane.splice(lane.indexOf(request), 1)
    this.settle(request, why)
  }

  /** Checks what a worker was given, which may be nothing, against what waits, and strikes it off. */
  taken(batch: Requests | null, idle: boolean, nowMs: number): void {
    const ready = [...this.lanes.values()].filter((lane) => this.#isReady(lane, idle, nowMs))
    if (batch === null) {
      ensure(ready.length === 0, () => `${idle ? 'an idle' : 'a busy'} instance was not given ${named(ready[0]!)}`)
      return
    }
    ensure(batch.length > 0, () => 'a batch is empty')
    const lane = this.#lane(batch[0]!.shapeKey)
    ensure(!batch.some(({ shapeKey }) => shapeKey !== batch[0]!.shapeKey), () => `two shapes in ${named(batch)}`)
    const inOrder = batch.every((request, index) => lane[index] === request)
    ensure(inOrder, () => `${named(batch)} was taken out of order from ${named(lane)}`)
    const mayGo = idle || !this.joinRequests || this.isFull(lane)
    ensure(mayGo, () => `partial ${named(batch)} was handed to a busy instance`)
    ensure(ready.includes(lane), () => `${named(batch)} did not wait for its delay`)
    const older = ready.find(([head]) => head!.enqueuedAtMs < lane[0]!.enqueuedAtMs)
    ensure(older === undefined, () => `${named(batch)} went before the older ${named(older!)}`)
    const late = batch.find(({ deadlineMs }) => deadlineMs <= nowMs)
    ensure(late === undefined, () => `#${late!.id} was handed over after its deadline`)
    this.#checkSize(batch, lane, nowMs)
    lane.splice(0, batch.length)
  }

  /** A lane an idle instance must not leave alone, its delay being over. */
  overdue(nowMs: number): Requests | undefined {
    const lanes = [...this.lanes.values()].filter(({ length }) => length > 0)
    return lanes.find((lane) => this.isFull(lane) || this.#delayIsOver(lane, nowMs))
  }

  isFull(lane: Requests): boolean {
    return rowsOf(lane) >= this.#fullRows
  }

  #checkSize(batch: Requests, lane: Requests, nowMs: number): void {
    const { maxBatchSize, maxQueueDelayMs } = this.limits
    const rows = rowsOf(batch)
    ensure(rows <= maxBatchSize, () => `${named(batch)} exceeds ${maxBatchSize} rows`)
    if (!this.joinRequests) return ensure(batch.length === 1, () => `${named(batch)} joins requests`)
    if (maxQueueDelayMs > 0 && this.#delayIsOver(lane, nowMs)) {
      const next = lane[batch.length]
      const fits = next !== undefined && rows < maxBatchSize && rows + next.rows <= maxBatchSize
      ensure(!fits, () => `${named(batch)} left room for #${next!.id}`)
      return
    }
    ensure(batch.length === 1 || rows <= this.#fullRows, () => `${named(batch)} exceeds the largest preferred size`)
    const best = this.#preferredPrefixes(lane).at(-1)
    ensure(best === undefined || best === rows, () => `${named(batch)} was sent instead of ${best} rows`)
  }

  #isReady(lane: Requests, idle: boolean, nowMs: number): boolean {
    if (lane.length === 0) return false
    if (!this.joinRequests || this.isFull(lane)) return true
    return idle && (this.#delayIsOver(lane, nowMs) || this.#preferredPrefixes(lane).length > 0)
  }

  #delayIsOver(lane: Requests, nowMs: number): boolean {
    return nowMs >= lane[0]!.enqueuedAtMs + this.limits.maxQueueDelayMs
  }

  #preferredPrefixes(lane: Requests): number[] {
    const { maxBatchSize, preferredBatchSizes } = this.limits
    const sizes = preferredBatchSizes.length === 0 ? [maxBatchSize] : preferredBatchSizes
    let sum = 0
    return lane.map(({ rows }) => (sum += rows)).filter((prefix) => sizes.includes(prefix))
  }

  #lane(shapeKey: string): LedgerRequest[] {
    const lane = this.lanes.get(shapeKey) ?? []
    this.lanes.set(shapeKey, lane)
    return lane
  }
}
