import { RequestQueue, type QueueOwner } from '../../src/schedule/request-queue.ts'
import { type QueueExit, PriorityLevels, type PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from '../queue/waiting-request.ts'
import { resolveConfig, batchLimits } from '../../src/options/model-config.ts'
import { FakeClock } from '../fake-clock.ts'
import { runTicks, type Arrival, type Rule } from './rules.ts'

/** What came of a scenario. */
export interface Outcome {
  readonly batches: string[]
  readonly waits: Record<string, number>
  readonly rejected: Record<string, string>
}

class NamedEntry extends WaitingRequest {
  readonly arrival: Arrival

  constructor(arrival: Arrival, level: PriorityLevel) {
    super(arrival.rows ?? 1, String(arrival.shape ?? 1), level)
    this.arrival = arrival
  }
}

/** Plays a scenario on the fake clock, a tick to a millisecond, with one instance as a worker drives it. */
export class Replay implements QueueOwner<NamedEntry> {
  readonly #clock = new FakeClock()
  readonly #queue: RequestQueue<NamedEntry>
  readonly #levels: PriorityLevels
  readonly #rule: Rule
  readonly #outcome: Outcome = { batches: [], waits: {}, rejected: {} }
  readonly #ahead: NamedEntry[][] = []
  #freeAtMs: number

  constructor(rule: Rule) {
    const { max = 8, batching = {}, busyUntil = 0 } = rule
    const config = resolveConfig('rules', { path: 'none.onnx', maxBatchSize: max, dynamicBatching: batching })
    this.#rule = rule
    this.#levels = new PriorityLevels(config.levels)
    this.#queue = new RequestQueue({ ...batchLimits(config, max), holdUntilQueued: 0 }, this.#clock, this)
    this.#freeAtMs = busyUntil
    if (busyUntil > 0) this.#clock.setTimer(() => this.#finished(), busyUntil)
  }

  run(): Outcome {
    const times = [
      ...new Set(
        this.#rule.arrivals.flatMap(({ at = 0, cancelAt }) => [
          at,
          ...(cancelAt === undefined ? [] : [cancelAt]),
        ]),
      ),
    ]
    const entries = new Map<Arrival, NamedEntry>()
    for (const time of times.sort((a, b) => a - b)) {
      this.#clock.advanceTo(time)
      for (const arrival of this.#rule.arrivals) {
        if ((arrival.at ?? 0) === time) entries.set(arrival, this.#arrive(arrival))
        if (arrival.cancelAt === time) this.#queue.cancel(entries.get(arrival)!, 'cancelled')
      }
      this.#pump()
    }
    this.#clock.advanceBy(1000)
    return this.#outcome
  }

  dropped({ arrival }: NamedEntry, why: QueueExit): void {
    this.#reject(arrival, why === 'cancelled' ? 'aborted' : 'ERR_TIMEOUT')
  }

  revoke(entry: NamedEntry): boolean {
    const at = this.#ahead.findIndex((batch) => batch.includes(entry))
    if (at === -1) return false
    this.#queue.putBack(this.#ahead.splice(at, 1)[0]!)
    return true
  }

  wake(): void {
    this.#pump()
  }

  #arrive(arrival: Arrival): NamedEntry {
    const entry = new NamedEntry(arrival, this.#levels.of(arrival.priority))
    const nowMs = this.#clock.nowMs()
    const waitMs = entry.level.timeoutFor(arrival.timeout)
    if (waitMs > 0) entry.timeoutAtMs = nowMs + waitMs
    if (entry.level.full) this.#reject(arrival, 'ERR_QUEUE_FULL')
    else if (this.#queue.enqueue(entry, nowMs)) this.#pump()
    return entry
  }

  #reject({ name, at = 0 }: Arrival, code: string): void {
    this.#outcome.rejected[name] = code
    this.#outcome.waits[name] = this.#clock.nowMs() - at
  }

  /** One batch runs, one full one may wait behind it. */
  #pump(): void {
    while (this.#ahead.length < 1) {
      const idle = this.#clock.nowMs() >= this.#freeAtMs
      const batch = this.#queue.take(idle)?.entries
      if (batch === undefined) return
      if (idle) this.#start(batch)
      else this.#ahead.push(batch)
    }
  }

  #start(batch: NamedEntry[]): void {
    const nowMs = this.#clock.nowMs()
    this.#outcome.batches.push(batch.map(({ arrival }) => arrival.name).join(''))
    for (const { arrival } of batch) this.#outcome.waits[arrival.name] = nowMs - (arrival.at ?? 0)
    this.#freeAtMs = nowMs + runTicks
    this.#clock.setTimer(() => this.#finished(), runTicks)
  }

  #finished(): void {
    const next = this.#ahead.shift()
    if (next !== undefined) {
      this.#queue.started(next)
      this.#start(next)
    }
    this.#pump()
  }
}
