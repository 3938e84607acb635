import { RequestQueue, type QueueOwner, type QueueOptions } from '../../src/schedule/request-queue.ts'
import { type QueueExit, PriorityLevels } from '../../src/request/infer-request.ts'
import type { WaitingRequest } from './waiting-request.ts'
import { Expiries } from '../../src/schedule/expiries.ts'
import type { LevelOptions } from '../../src/options/batching.ts'
import { FakeClock } from '../fake-clock.ts'
import { ensure, Ledger, LedgerRequest, type Fate } from './ledger.ts'

export interface Scenario {
  readonly limits: QueueOptions
  readonly levels: LevelOptions
  readonly instances: number
}

/** One event of a history. `instance` and `request` are taken modulo what there is. */
export type Step =
  | {
      readonly do: 'arrive'
      readonly rows: number
      readonly shape: string
      readonly timeoutMs: number
      readonly priority: number
    }
  | { readonly do: 'cancel'; readonly request: number }
  | { readonly do: 'advance'; readonly ms: number }
  /** The event loop is held up; a batch comes back before the late timers fire. */
  | { readonly do: 'stall'; readonly ms: number; readonly instance: number }
  /** The oldest batch of an instance comes back; a dead instance comes up again instead. */
  | { readonly do: 'finish'; readonly instance: number; readonly as: 'result' | 'failed' | 'indivisible' }
  /** What it ran is lost; what has not been given back before may be. */
  | { readonly do: 'crash'; readonly instance: number; readonly giveBack: boolean }
  | { readonly do: 'close' }

interface Instance {
  up: boolean
  readonly outstanding: LedgerRequest[][]
}

/** One batch runs, one waits behind it. */
const maxOutstanding = 2

/** What a batcher watches: it is private, and that it empties is worth knowing. */
let watching: Expiries<WaitingRequest> | null = null
const { push } = Expiries.prototype
function pushAndTell(
  filled: Expiries<WaitingRequest>,
  entry: WaitingRequest,
  atMs: number,
  nowMs: number,
): void {
  watching = filled
  push.call(filled, entry, atMs, nowMs)
}
Expiries.prototype.push = function (entry, atMs, nowMs) {
  pushAndTell(this, entry, atMs, nowMs)
}

/** Instances that run nothing, driven by a history, around a real batcher; every move is checked by a ledger. */
export class Simulation implements QueueOwner<LedgerRequest> {
  readonly #clock = new FakeClock(1000)
  readonly #requests: LedgerRequest[] = []
  readonly #instances: Instance[]
  readonly #ledger: Ledger
  readonly #queue: RequestQueue<LedgerRequest>
  #expectedExit: QueueExit = 'timeout'
  #flushPending = false
  #closed = false

  readonly #levels: PriorityLevels

  constructor({ limits, levels, instances }: Scenario) {
    this.#levels = new PriorityLevels(levels)
    watching = null
    this.#ledger = new Ledger(limits)
    this.#instances = Array.from({ length: instances }, () => ({ up: true, outstanding: [] }))
    this.#queue = new RequestQueue(limits, this.#clock, this)
  }

  /** Lives through `steps`, lets everything come to its end, and checks that nothing is left. */
  run(steps: readonly Step[]): void {
    for (const step of steps) {
      this.#perform(step)
      this.#check()
    }
    this.#drain()
    this.#checkEmpty()
  }

  dropped(request: LedgerRequest, why: QueueExit): void {
    ensure(
      why === 'timeout' || why === this.#expectedExit,
      () => `#${request.id} left as ${why} without a reason`,
    )
    this.#ledger.dropped(request, why, this.#clock.nowMs())
  }

  revoke(): boolean {
    return false
  }

  wake(): void {
    this.#pumpAll()
  }

  #perform(step: Step): void {
    // Requests of one turn of the event loop are offered together, when it ends.
    if (step.do !== 'arrive' && step.do !== 'cancel' && this.#flushPending) this.#pumpAll()
    if (step.do === 'arrive') this.#arrive(step)
    else if (step.do === 'cancel') this.#cancel(step.request)
    else if (step.do === 'advance') this.#clock.advanceBy(step.ms)
    else if (step.do === 'stall') this.#stall(step.ms, this.#instanceAt(step.instance))
    else if (step.do === 'finish') this.#finish(this.#instanceAt(step.instance), step.as)
    else if (step.do === 'crash') this.#crash(this.#instanceAt(step.instance), step.giveBack)
    else this.#close()
  }

  #arrive({ rows, shape, timeoutMs, priority }: Extract<Step, { do: 'arrive' }>): void {
    const request = new LedgerRequest(this.#requests.length, rows, shape, this.#levels.of(priority))
    this.#requests.push(request)
    if (this.#closed) return this.#ledger.settle(request, 'closed')
    if (request.level.full) return this.#ledger.settle(request, 'queue-full')
    const nowMs = this.#clock.nowMs()
    // No two at the same time: in which order they are delayed would be anybody's guess.
    if (timeoutMs > 0) request.timeoutAtMs = nowMs + timeoutMs + request.id * 1e-6
    const full = this.#queue.enqueue(request, nowMs)
    ensure(
      full === this.#ledger.arrived(request),
      () => `#${request.id} was wrongly said to fill a batch or not`,
    )
    if (full) this.#pumpAll()
    else this.#flushPending = true
  }

  #cancel(index: number): void {
    const request = this.#requests[index % this.#requests.length]
    if (request === undefined) return
    const waits = this.#ledger.waiting.includes(request)
    this.#expectedExit = 'cancelled'
    const cancelled = this.#queue.cancel(request, 'cancelled')
    this.#expectedExit = 'timeout'
    ensure(cancelled === waits, () => `cancel of #${request.id} gave ${cancelled}`)
    if (request.fate === null) this.#ledger.settle(request, 'cancelled') // it runs; its result will be dropped
    ensure(!waits || request.fate === 'cancelled', () => `#${request.id} was not told that it was cancelled`)
  }

  #stall(ms: number, instance: Instance): void {
    this.#clock.stall(ms)
    this.#finish(instance, 'result')
    this.#clock.advanceBy(0)
  }

  #finish(instance: Instance, as: Extract<Step, { do: 'finish' }>['as']): void {
    const batch = instance.outstanding.shift() ?? []
    instance.up = true
    if (as === 'indivisible' && this.#ledger.joinRequests && batch.length > 1) this.#runSingly(batch)
    else this.#settle(batch, as === 'failed' ? 'failed' : 'result')
    this.#pump(instance)
    if (as === 'indivisible') this.#pumpAll()
  }

  #runSingly(batch: LedgerRequest[]): void {
    this.#queue.stopJoining()
    this.#ledger.joinRequests = false
    this.#requeue(batch)
  }

  #requeue(batch: readonly LedgerRequest[]): void {
    const unsettled = batch.filter(({ fate }) => fate === null)
    this.#queue.requeue(unsettled)
    this.#ledger.requeued(unsettled)
  }

  #crash(instance: Instance, giveBack: boolean): void {
    instance.up = false
    for (const batch of instance.outstanding.splice(0).toReversed()) {
      if (giveBack && !this.#closed) this.#requeue(batch)
      else this.#settle(batch, 'failed')
    }
    this.#pumpAll()
  }

  #close(): void {
    this.#closed = true
    this.#expectedExit = 'closed'
    this.#queue.clear('closed')
    this.#expectedExit = 'timeout'
  }

  #settle(batch: readonly LedgerRequest[], fate: Fate): void {
    for (const request of batch) if (request.fate !== 'cancelled') this.#ledger.settle(request, fate)
  }

  #pumpAll(): void {
    this.#flushPending = false
    const leastBusyFirst = this.#instances.toSorted((a, b) => a.outstanding.length - b.outstanding.length)
    for (const instance of leastBusyFirst) this.#pump(instance)
  }

  #pump({ up, outstanding }: Instance): void {
    while (up && outstanding.length < maxOutstanding) {
      const idle = outstanding.length === 0
      const batch = this.#queue.take(idle)?.entries ?? null
      this.#ledger.taken(batch, idle, this.#clock.nowMs())
      if (batch === null) return
      this.#queue.started(batch)
      outstanding.push(batch)
    }
  }

  #instanceAt(index: number): Instance {
    return this.#instances[index % this.#instances.length]!
  }

  #check(): void {
    const nowMs = this.#clock.nowMs()
    this.#ledger.noteDelayed(nowMs)
    const waiting = this.#ledger.waiting
    const { count, rows } = this.#queue
    ensure(count === waiting.length, () => `${waiting.length} wait, count says ${count}`)
    ensure(rows === waiting.reduce((sum, request) => sum + request.rows, 0), () => `rows says ${rows}`)
    this.#ledger.checkLevels()
    ensure(
      this.#clock.timers <= (count > 0 ? 1 : 0),
      () => `${this.#clock.timers} timers while ${count} wait`,
    )
    const late = waiting.find(({ timeoutAtMs }) => timeoutAtMs !== null && timeoutAtMs <= nowMs)
    ensure(late === undefined, () => `#${late!.id} waits past its deadline`)
    const idle = this.#instances.some(({ up, outstanding }) => up && outstanding.length === 0)
    const overdue = idle && !this.#flushPending ? this.#ledger.overdue(nowMs) : undefined
    ensure(overdue === undefined, () => `#${overdue![0]!.id} waits past its delay while an instance is idle`)
  }

  #drain(): void {
    this.#pumpAll()
    for (let left = 10 * this.#requests.length; left >= 0; left--) {
      for (const instance of this.#instances) this.#finish(instance, 'result')
      this.#check()
      if (this.#instances.some(({ outstanding }) => outstanding.length > 0)) continue
      if (this.#queue.count === 0) return
      ensure(
        this.#clock.timers === 1,
        () => 'requests wait, all instances are idle, and no timer will wake them',
      )
      this.#clock.advanceTo(this.#clock.nextMs)
    }
    ensure(false, () => 'it never ends')
  }

  #checkEmpty(): void {
    const forgotten = this.#requests.find(({ fate }) => fate === null)
    ensure(forgotten === undefined, () => `#${forgotten!.id} was never settled`)
    ensure(watching === null || watching.size === 0, () => `${watching!.size} requests are still watched`)
    const linked = this.#requests.find(({ line }) => line !== null)
    ensure(linked === undefined, () => `#${linked!.id} is still linked`)
  }
}
