import type { QueueOptions } from '../../src/schedule/request-queue.ts'
import { type QueueExit, type PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from './waiting-request.ts'

/** How a request ended. */
export type Fate = QueueExit | 'result' | 'failed' | 'queue-full'

export class LedgerRequest extends WaitingRequest {
  readonly id: number
  fate: Fate | null = null
  /** When its timeout runs out, as it came; `Infinity` for never. */
  limitAtMs = Infinity
  /** Whether this account knows that it was delayed. */
  knownDelayed = false

  constructor(id: number, rows: number, bucketKey: string, level: PriorityLevel) {
    super(rows, bucketKey, level)
    this.id = id
  }
}

type Requests = readonly LedgerRequest[]

export function ensure(condition: boolean, broken: () => string): asserts condition {
  if (!condition) throw new Error(broken())
}

/** Where a request stands: levels first, the delayed of a level after its others. */
const rank = ({ level, delayed }: LedgerRequest): number => 2 * level.level + Number(delayed)

const rowsOf = (requests: Requests): number => requests.reduce((sum, { rows }) => sum + rows, 0)
const named = (requests: Requests): string =>
  `[${requests.map(({ id, rows }) => `#${id}:${rows}`).join(' ')}]`

/**
 * A second account of what waits, kept in plain arrays, against which every batch and every exit is checked. It says
 * what must hold of a batch, not how to find it.
 */
export class Ledger {
  readonly limits: QueueOptions
  joinRequests: boolean
  readonly lanes = new Map<string, LedgerRequest[]>()
  readonly #fullRows: number
  readonly #servedAtMs = new Map<string, number>()

  constructor(limits: QueueOptions) {
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

  /** True when the lane of `request`, which it joins, holds a full batch with it, and held none before. */
  arrived(request: LedgerRequest): boolean {
    const lane = this.#lane(request.bucketKey)
    const holdsFull = () => lane.length > 0 && (!this.joinRequests || this.isFull(lane))
    const wasFull = holdsFull()
    this.#insert(lane, request, true)
    request.limitAtMs = request.timeoutAtMs ?? Infinity
    return !wasFull && holdsFull()
  }

  /** The oldest first, or what expires sooner; in a bucket that was served since, none counts as older than a second then. */
  #urgentAtMs({ timeoutAtMs, enqueuedAtMs, bucketKey }: LedgerRequest): number {
    return Math.min(
      timeoutAtMs ?? Infinity,
      Math.max(enqueuedAtMs + 1000, this.#servedAtMs.get(bucketKey) ?? 0),
    )
  }

  #isMoreUrgent(a: LedgerRequest, b: LedgerRequest): boolean {
    if (a.level.level !== b.level.level) return a.level.level < b.level.level
    const [first, second] = [this.#urgentAtMs(a), this.#urgentAtMs(b)]
    return first === second ? a.enqueuedAtMs < b.enqueuedAtMs : first < second
  }

  requeued(batch: Requests): void {
    for (const request of batch.toReversed()) {
      request.limitAtMs = Infinity
      this.#insert(this.#lane(request.bucketKey), request, false)
    }
  }

  /** Moves requests whose timeout ran out under `DELAY` behind the others of their level. */
  noteDelayed(nowMs: number): void {
    const delayed = this.waiting.filter((request) => request.delayed && !request.knownDelayed)
    for (const request of delayed.toSorted((a, b) => a.limitAtMs - b.limitAtMs)) {
      ensure(request.limitAtMs <= nowMs, () => `#${request.id} was delayed before its time`)
      ensure(
        request.level.policy.timeoutAction === 'DELAY',
        () => `#${request.id} was delayed and not rejected`,
      )
      request.knownDelayed = true
      const lane = this.#lane(request.bucketKey)
      lane.splice(lane.indexOf(request), 1)
      this.#insert(lane, request, true)
    }
  }

  /** Checks what each level says of itself. */
  checkLevels(): void {
    const levels = new Map<PriorityLevel, number>()
    for (const { level } of this.waiting) levels.set(level, (levels.get(level) ?? 0) + 1)
    for (const [level, count] of levels) {
      ensure(level.waiting === count, () => `${count} wait at level ${level.level}, it says ${level.waiting}`)
      const { maxQueueSize } = level.policy
      ensure(
        level.full === (maxQueueSize > 0 && count >= maxQueueSize),
        () => `level ${level.level} says full ${level.full}`,
      )
    }
  }

  dropped(request: LedgerRequest, why: QueueExit, nowMs: number): void {
    const lane = this.#lane(request.bucketKey)
    ensure(lane.includes(request), () => `#${request.id} was dropped as ${why} and did not wait`)
    ensure(why !== 'timeout' || request.limitAtMs <= nowMs, () => `#${request.id} timed out before its time`)
    ensure(
      why !== 'timeout' || request.level.policy.timeoutAction === 'REJECT',
      () => `#${request.id} timed out and was not delayed`,
    )
    lane.splice(lane.indexOf(request), 1)
    if (lane.length === 0) this.#servedAtMs.delete(request.bucketKey)
    this.settle(request, why)
  }

  /** Checks what a worker was given, which may be nothing, against what waits, and strikes it off. */
  taken(batch: Requests | null, idle: boolean, nowMs: number): void {
    this.noteDelayed(nowMs)
    const ready = [...this.lanes.values()].filter((lane) => this.#isReady(lane, true, nowMs))
    if (batch === null) {
      // A busy instance is given nothing while a partial batch has its turn.
      const next = ready.filter(([head]) => !ready.some(([other]) => this.#isMoreUrgent(other!, head!)))
      const withheld = next.length > 0 && (idle || next.every((lane) => this.#isReady(lane, false, nowMs)))
      ensure(!withheld, () => `${idle ? 'an idle' : 'a busy'} instance was not given ${named(next[0]!)}`)
      return
    }
    ensure(batch.length > 0, () => 'a batch is empty')
    const lane = this.#lane(batch[0]!.bucketKey)
    ensure(
      !batch.some(({ bucketKey }) => bucketKey !== batch[0]!.bucketKey),
      () => `two shapes in ${named(batch)}`,
    )
    const inOrder = batch.every((request, index) => lane[index] === request)
    ensure(inOrder, () => `${named(batch)} was taken out of order from ${named(lane)}`)
    const mayGo = idle || !this.joinRequests || this.isFull(lane)
    ensure(mayGo, () => `partial ${named(batch)} was handed to a busy instance`)
    ensure(ready.includes(lane), () => `${named(batch)} did not wait for its delay`)
    const urgent = ready.find(([head]) => this.#isMoreUrgent(head!, lane[0]!))
    ensure(urgent === undefined, () => `${named(batch)} went before the more urgent ${named(urgent!)}`)
    const late = batch.find(({ timeoutAtMs }) => timeoutAtMs !== null && timeoutAtMs <= nowMs)
    ensure(late === undefined, () => `#${late!.id} was handed over after its timeout`)
    this.#checkSize(batch, lane, idle, nowMs)
    lane.splice(0, batch.length)
    this.#noteServed(batch[0]!.bucketKey, nowMs)
  }

  #noteServed(bucketKey: string, nowMs: number): void {
    if (this.#lane(bucketKey).length > 0) this.#servedAtMs.set(bucketKey, nowMs)
    else this.#servedAtMs.delete(bucketKey)
  }

  /** A lane an idle instance must not leave alone, its delay being over. */
  overdue(nowMs: number): Requests | undefined {
    const lanes = [...this.lanes.values()].filter(({ length }) => length > 0)
    return lanes.find((lane) => this.isFull(lane) || this.#delayIsOver(lane, nowMs))
  }

  isFull(lane: Requests): boolean {
    return rowsOf(lane) >= this.#fullRows
  }

  #checkSize(batch: Requests, lane: Requests, idle: boolean, nowMs: number): void {
    const { maxBatchSize, maxQueueDelayMs } = this.limits
    const rows = rowsOf(batch)
    ensure(rows <= maxBatchSize, () => `${named(batch)} exceeds ${maxBatchSize} rows`)
    if (!this.joinRequests) return ensure(batch.length === 1, () => `${named(batch)} joins requests`)
    const allFit = rowsOf(lane) <= maxBatchSize && rowsOf(lane.slice(0, -1)) < maxBatchSize
    if (idle && maxQueueDelayMs > 0 && this.#delayIsOver(lane, nowMs) && allFit) {
      ensure(
        batch.length === lane.length || rows === maxBatchSize,
        () => `${named(batch)} left some of ${named(lane)} behind`,
      )
      return
    }
    ensure(
      batch.length === 1 || rows <= this.#fullRows,
      () => `${named(batch)} exceeds the largest preferred size`,
    )
    const best = this.#preferredPrefixes(lane).at(-1)
    ensure(best === undefined || best === rows, () => `${named(batch)} was sent instead of ${best} rows`)
  }

  #isReady(lane: Requests, idle: boolean, nowMs: number): boolean {
    if (lane.length === 0) return false
    if (!this.joinRequests || this.isFull(lane)) return true
    return idle && (this.#delayIsOver(lane, nowMs) || this.#preferredPrefixes(lane).length > 0)
  }

  #delayIsOver(lane: Requests, nowMs: number): boolean {
    return nowMs >= this.#oldestMs(lane) + this.limits.maxQueueDelayMs
  }

  /** When the oldest of the requests arrived that one batch could take. */
  #oldestMs(lane: Requests): number {
    let rows = 0
    let oldestMs = Infinity
    for (const request of lane) {
      rows += request.rows
      if (rows > this.limits.maxBatchSize) break
      oldestMs = Math.min(oldestMs, request.enqueuedAtMs)
      if (rows === this.limits.maxBatchSize) break
    }
    return oldestMs
  }

  #insert(lane: LedgerRequest[], request: LedgerRequest, last: boolean): void {
    const at = lane.findIndex((other) => (last ? rank(other) > rank(request) : rank(other) >= rank(request)))
    lane.splice(at === -1 ? lane.length : at, 0, request)
  }

  #preferredPrefixes(lane: Requests): number[] {
    const { maxBatchSize, preferredBatchSizes } = this.limits
    const sizes = preferredBatchSizes.length === 0 ? [maxBatchSize] : preferredBatchSizes
    let sum = 0
    return lane.map(({ rows }) => (sum += rows)).filter((prefix) => sizes.includes(prefix))
  }

  #lane(bucketKey: string): LedgerRequest[] {
    const lane = this.lanes.get(bucketKey) ?? []
    this.lanes.set(bucketKey, lane)
    return lane
  }
}
