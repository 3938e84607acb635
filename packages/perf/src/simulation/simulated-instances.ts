import { type Charge, type Clock, expiresAtMs, FairShare, InlineBudget, leftOfRunMs } from 'zerohop/internals'
import type { Delays, Overheads } from './delays.ts'
import { Fifo, type Traffic } from './traffic.ts'
import type { RunDurations } from './service-times.ts'
import { costsOf, type SimulatedCosts } from './simulated-costs.ts'
import { rowsOf, type SimulatedQueue, type SimulatedRequest } from './simulated-queue.ts'
import type { SimulationRecord } from './simulation-result.ts'
import type { VirtualClock } from './virtual-clock.ts'

/** What {@link SimulatedInstances} work with. */
interface InstancesContext {
  readonly clock: VirtualClock
  readonly thread: ApplicationThread
  readonly service: RunDurations
  readonly overheads: Required<Overheads>
  readonly delays: Delays
  /** What runs take when 1, 2, ... of them run at once, in times of what they take alone; the last counts for more. */
  readonly slowdown: readonly number[]
  readonly record: SimulationRecord
  /** What requests cost, which is then what runs take their time by; `undefined` for rows. */
  readonly costs: SimulatedCosts | undefined
  readonly traffic: Traffic
}

/** All instances, and who gets them: a queue is offered the idle ones first, then the one that is free soonest. */
export class SimulatedInstances implements InstanceOwner {
  /** Time that instances spent on runs, in milliseconds. */
  busyMs = 0
  readonly queues: SimulatedQueue[] = []
  readonly ahead: BatchesAhead
  readonly #all: readonly SimulatedInstance[]
  readonly #idle: SimulatedInstance[]
  /** Queues at which no idle instance has looked since something came there or fell due. */
  readonly #pending = new Set<SimulatedQueue>()
  readonly #context: InstancesContext
  readonly #inline: InlineBudget<SimulatedInstance> | null
  #running = 0
  #formed = 0

  constructor(count: number, models: number, context: InstancesContext) {
    this.#all = Array.from({ length: count }, () => new SimulatedInstance(models, context.clock, this))
    this.#idle = [...this.#all]
    this.ahead = new BatchesAhead(this.#all, (run) => this.#putBack(run))
    this.#context = context
    const { clock, overheads } = context
    this.#inline = overheads.inline === null ? null : new InlineBudget(clock, overheads.inline)
  }

  get anyIdle(): boolean {
    return this.#idle.length > 0
  }

  /** Whether one could be given a batch. */
  get hasRoom(): boolean {
    return this.#all.some(({ hasRoom }) => hasRoom)
  }

  /** How long until the first one could start something more, in milliseconds. */
  freeInMs(): number {
    if (this.#idle.length > 0) return 0
    let soonestMs = Infinity
    for (const instance of this.#all) soonestMs = Math.min(soonestMs, instance.freeInMs())
    return soonestMs
  }

  /** Models whose requests wait for an instance, at least 1. */
  contenders(): number {
    return Math.max(1, this.#pending.size)
  }

  /** Something came to `queue` or fell due there; it is offered to instances with {@link offer}. */
  note(queue: SimulatedQueue): void {
    this.#pending.add(queue)
  }

  /** Offers what is noted to the idle instances, and a full batch of `queue` to the one that is free soonest. */
  offer(queue: SimulatedQueue): void {
    while (this.#idle.length > 0 && this.#pending.size > 0) if (!this.#offerIdle()) break
    while (queue.hasFull) if (!this.#offerAhead()) return
  }

  started(run: Run): number {
    const { service, record, costs } = this.#context
    if (run.ahead) this.queues[run.model]!.started(run.requests)
    record.started(run.requests.length, run.rows, run.startMs)
    if (costs !== undefined) record.costed(costsOf(run.requests, costs.isPadded ?? true))
    this.#nowRunning(this.#running + 1)
    const { bucketKey, index } = run.requests[0]!
    return run.inlineMs ?? service.draw(bucketKey, run.size, run.startMs, index)
  }

  betweenMs({ requests }: Run): number {
    return this.#context.delays.betweenMs(requests[0]!.index)
  }

  ended(instance: SimulatedInstance, run: Run): void {
    const { clock, thread, delays } = this.#context
    const tookMs = clock.nowMs() - run.startMs
    this.busyMs += tookMs
    this.#nowRunning(this.#running - 1)
    if (run.inlineMs !== null) {
      this.#inline!.spent(run.inlineMs, instance)
      return this.#told(instance, run, tookMs) // before it comes to anything else
    }
    const told = () => thread.whenFree(() => this.#told(instance, run, tookMs))
    const wakeMs = delays.wakeMs(run.requests[0]!.index)
    if (wakeMs > 0) clock.setTimer(told, wakeMs)
    else told()
  }

  /** The application's thread hears of the end of a run: it sees to the instance first, and then to the answers. */
  #told(instance: SimulatedInstance, run: Run, tookMs: number): void {
    const { thread, delays, record, traffic } = this.#context
    this.queues[run.model]!.ran(run.requests, run.rows, tookMs)
    instance.told()
    if (instance.isIdle && !this.#idle.includes(instance)) {
      this.#idle.push(instance)
      for (const model of this.ahead.models) this.note(this.queues[model]!) // it takes what waits behind another
      while (this.#idle.length > 0 && this.#pending.size > 0) if (!this.#offerIdle()) break
    }
    if (!instance.isIdle && instance.hasRoom) this.#offerTo(instance, false)
    const request = run.requests[0]!.index
    const givenMs = thread.spend(delays.scatterMs(run.rows, request))
    const eachMs = run.requests.length === 1 ? 0 : delays.answerMs(request)
    thread.spend(eachMs * (run.requests.length - 1))
    for (const [at, { index, wholeRows }] of run.requests.entries()) {
      if (record.answered({ index, wholeRows }, givenMs + at * eachMs)) traffic.ended(givenMs, index)
    }
  }

  #nowRunning(count: number): void {
    this.#running = count
    const { slowdown } = this.#context
    if (slowdown.length === 0 || count === 0) return
    const factor = slowdown[Math.min(count, slowdown.length) - 1]!
    for (const instance of this.#all) instance.slowBy(factor)
  }

  #offerIdle(): boolean {
    const instance = this.#idle.at(-1)!
    if (!this.#offerTo(instance, true)) return false
    this.#idle.pop()
    return true
  }

  #offerAhead(): boolean {
    let soonest: SimulatedInstance | null = null
    for (const instance of this.#all) {
      if (instance.isIdle || !instance.hasRoom) continue
      if (soonest === null || instance.freeInMs() < soonest.freeInMs()) soonest = instance
    }
    return soonest !== null && this.#offerTo(soonest, false)
  }

  #offerTo(instance: SimulatedInstance, idle: boolean): boolean {
    const { turns } = instance
    for (const queue of this.#pending) turns.activate(queue.model)
    for (let model = turns.next(); model !== null; model = turns.next()) {
      if (!idle && !turns.mayHandAhead) return false
      const queue = this.queues[model]!
      if (idle && this.#all.length > 1) this.ahead.takeBack(model)
      const requests = queue.waiting > 0 ? queue.take(idle, idle ? 0 : instance.freeInMs()) : null
      if (queue.waiting === 0) this.#pending.delete(queue)
      if (requests !== null) {
        this.#handOver(instance, queue, requests, idle)
        return true
      }
      // It is this model's turn as soon as the instance is free; nobody may be handed ahead of it.
      if (!idle && queue.waiting > 0) return false
      turns.deactivate(model)
      this.#pending.delete(queue) // what waits for a delay is noted again when that ends
    }
    return false
  }

  #handOver(
    instance: SimulatedInstance,
    queue: SimulatedQueue,
    requests: SimulatedRequest[],
    idle: boolean,
  ): void {
    const { thread, delays } = this.#context
    const rows = rowsOf(requests)
    const size = this.#sizeOf(requests, rows)
    const [first] = requests as [SimulatedRequest]
    const expectedMs = queue.expectedMs(rows, first.bucketKey)
    const gatheredMs = thread.spend(delays.gatherMs(rows, first.index))
    const inlineMs = idle ? this.#inlineMs(instance, queue, first, size, gatheredMs) : null
    const waitMs =
      inlineMs === null
        ? instance.running === null
          ? delays.handOverMs(first.index)
          : 0
        : this.#spentMs(delays.inlineMs(first.index))
    const charge = instance.turns.charge(queue.model, expectedMs)
    instance.submit({
      number: this.#formed++,
      model: queue.model,
      requests,
      rows,
      size,
      charge,
      expectedMs,
      readyAtMs: gatheredMs + waitMs,
      inlineMs,
      ahead: !idle,
      startMs: 0,
    })
  }

  /** By what a run takes its time. */
  #sizeOf(requests: readonly SimulatedRequest[], rows: number): number {
    const { costs } = this.#context
    return costs === undefined ? rows : Math.ceil(costsOf(requests, costs.isPadded ?? true).batchCost)
  }

  #putBack(run: Run): void {
    const queue = this.queues[run.model]!
    queue.putBack(run.requests)
    this.note(queue)
  }

  /** What a batch takes that the application's thread runs itself; `null` for one that is handed over. */
  #inlineMs(
    instance: SimulatedInstance,
    queue: SimulatedQueue,
    { bucketKey, index }: SimulatedRequest,
    size: number,
    atMs: number,
  ): number | null {
    const { service } = this.#context
    if (
      this.#inline === null ||
      !this.#inline.allows(service.expectedMs(bucketKey, size), instance, queue.waiting > 0)
    )
      return null
    return this.#spentMs(service.draw(bucketKey, size, atMs, index))
  }

  /** The thread is busy for so long. */
  #spentMs(ms: number): number {
    this.#context.thread.spend(ms)
    return ms
  }
}

/** A batch on an instance. */
interface Run {
  /** Later ones have greater numbers. */
  readonly number: number
  readonly model: number
  readonly requests: readonly SimulatedRequest[]
  readonly rows: number
  /** By what it takes its time: its rows, or what it costs. */
  readonly size: number
  readonly charge: TurnCharge
  /** What it is expected to take; 0 when nobody knows. */
  readonly expectedMs: number
  /** When it is gathered and handed over. */
  readyAtMs: number
  /** What it takes on the application's thread; `null` for one that was handed over. */
  readonly inlineMs: number | null
  /** Whether its queue reckons that it waits behind another. */
  readonly ahead: boolean
  startMs: number
}

/** What a {@link SimulatedInstance} tells its owner. */
interface InstanceOwner {
  /** How long a run that starts now takes when nothing else runs, in milliseconds. */
  started(run: Run): number
  /** How long it takes from the end of a run until one starts that waited behind it. */
  betweenMs(run: Run): number
  ended(instance: SimulatedInstance, run: Run): void
}

/** One batch at a time, and at most one that waits behind it. */
class SimulatedInstance {
  readonly turns: FairTurns
  running: Run | null = null
  behind: Run | null = null
  /** Runs that have ended, of which the application's thread was not told yet. */
  #untold = 0
  readonly #clock: VirtualClock
  readonly #owner: InstanceOwner
  #timer: unknown = null
  /** How many times as long as alone the run takes at present. */
  #factor = 1
  #leftMs = 0 // of the run, were it alone
  #asOfMs = 0

  constructor(models: number, clock: VirtualClock, owner: InstanceOwner) {
    this.turns = new FairTurns(models)
    this.#clock = clock
    this.#owner = owner
  }

  /** Whether it has nothing, as far as the application's thread knows. */
  get isIdle(): boolean {
    return this.#out === 0
  }

  /** Whether it may be given a batch: one that runs, and one behind it. */
  get hasRoom(): boolean {
    return this.#out < 2
  }

  get #out(): number {
    return this.#untold + (this.running === null ? 0 : 1) + (this.behind === null ? 0 : 1)
  }

  submit(run: Run): void {
    if (this.running === null) this.#next(run)
    else this.behind = run
  }

  /** The application's thread knows of the end of a run. */
  told(): void {
    this.#untold--
  }

  /** Takes what waits behind its run back. */
  takeBack(): Run | null {
    const { behind } = this
    this.behind = null
    if (behind !== null) this.turns.refund(behind.charge)
    return behind
  }

  /** How long until it could start something more, in milliseconds, as far as can be known. */
  freeInMs(): number {
    const { running, behind } = this
    if (running === null) return this.isIdle ? 0 : leftOfRunMs(0)
    const leftMs = running.startMs + running.expectedMs - this.#clock.nowMs()
    return leftOfRunMs(leftMs) + (behind?.expectedMs ?? 0)
  }

  /** From now on a run takes so many times as long as alone: also what is left of the one that runs. */
  slowBy(factor: number): void {
    if (factor === this.#factor) return
    const nowMs = this.#clock.nowMs()
    this.#leftMs = Math.max(0, this.#leftMs - (nowMs - this.#asOfMs) / this.#factor)
    this.#asOfMs = nowMs
    this.#factor = factor
    if (this.#timer === null) return
    this.#clock.clearTimer(this.#timer)
    this.#timer = this.#clock.setTimer(this.#onEnd, this.#leftMs * factor)
  }

  #next(run: Run): void {
    this.running = run
    run.startMs = Math.max(this.#clock.nowMs(), run.readyAtMs)
    if (run.readyAtMs > this.#clock.nowMs())
      this.#clock.setTimer(this.#start, run.readyAtMs - this.#clock.nowMs())
    else this.#start()
  }

  readonly #start = (): void => {
    const run = this.running!
    run.startMs = this.#asOfMs = this.#clock.nowMs()
    this.#leftMs = this.#owner.started(run)
    this.#timer = this.#clock.setTimer(this.#onEnd, this.#leftMs * this.#factor)
  }

  readonly #onEnd = (): void => {
    const { running, behind } = this
    const run = running!
    this.#timer = null
    this.running = this.behind = null
    this.#untold++
    this.turns.settle(run.charge, this.#clock.nowMs() - run.startMs)
    if (behind !== null) {
      behind.readyAtMs = Math.max(behind.readyAtMs, this.#clock.nowMs() + this.#owner.betweenMs(behind))
      this.#next(behind)
    }
    this.#owner.ended(this, run)
  }
}

/** The thread that takes requests in, gathers, scatters and answers: what it does for one keeps the others waiting. */
export class ApplicationThread {
  readonly #clock: Clock
  readonly #waiting = new Fifo<() => void>()
  #freeAtMs = 0
  #alarmed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Does something as soon as what came before is done; at once when nothing is. */
  whenFree(action: () => void): void {
    if (this.#waiting.size === 0 && !this.#alarmed && this.#freeAtMs <= this.#clock.nowMs()) return action()
    this.#waiting.push(action)
    this.#setAlarm()
  }

  /** What is done now takes so long; returns when it will be done. */
  spend(ms: number): number {
    return (this.#freeAtMs = Math.max(this.#freeAtMs, this.#clock.nowMs()) + ms)
  }

  #setAlarm(): void {
    if (this.#alarmed) return
    this.#alarmed = true
    this.#clock.setTimer(this.#onFree, Math.max(0, this.#freeAtMs - this.#clock.nowMs()))
  }

  readonly #onFree = (): void => {
    this.#alarmed = false
    while (this.#waiting.size > 0) {
      if (this.#freeAtMs > this.#clock.nowMs()) return this.#setAlarm()
      this.#waiting.shift()!()
    }
  }
}

/** What a run was charged with. */
type TurnCharge = Charge<number>

/** As on the library's workers: where models share an instance, only runs as short as this are handed ahead. */
const handAheadBelowMs = 5

/** Whose turn it is on one instance: the only file that knows how the pool divides a worker among its models. */
class FairTurns {
  readonly #shares = new FairShare<number>()

  constructor(models: number) {
    for (let model = 0; model < models; model++) this.#shares.join(model)
  }

  /** Says that a model may have requests. */
  activate(model: number): void {
    this.#shares.activate(model)
  }

  /** Says that a model has none. */
  deactivate(model: number): void {
    this.#shares.deactivate(model)
  }

  /** The model whose turn it is, or `null` when none has requests. */
  next(): number | null {
    return this.#shares.next()?.source ?? null
  }

  /** Whether the model whose turn it is may hand a batch to the instance while it is busy. */
  get mayHandAhead(): boolean {
    return this.#shares.size === 1 || (this.#shares.next()?.lastMs ?? Infinity) <= handAheadBelowMs
  }

  /** Charges a run about to start; `expectedMs` is 0 when nobody knows what it takes. */
  charge(model: number, expectedMs: number): TurnCharge {
    return this.#shares.charge(model, expectedMs)
  }

  /** Takes a charge back: its run did not start. */
  refund(charge: TurnCharge): void {
    this.#shares.refund(charge)
  }

  settle(charge: TurnCharge, tookMs: number): void {
    this.#shares.settle(charge, tookMs)
  }
}

/** Batches that wait behind runs: what has them go back to their queues, as in the library. */
class BatchesAhead {
  readonly #instances: readonly SimulatedInstance[]
  readonly #putBack: (run: Run) => void

  /** @param putBack lets the requests of a batch wait in their queue again. */
  constructor(instances: readonly SimulatedInstance[], putBack: (run: Run) => void) {
    this.#instances = instances
    this.#putBack = putBack
  }

  /** The models of which there are some. */
  get models(): number[] {
    return this.#instances.flatMap(({ behind }) => behind?.model ?? [])
  }

  /** Takes the batch back of which a request is part; false when there is none. */
  takeBackBatchOf(request: SimulatedRequest): boolean {
    const instance = this.#instances.find(({ behind }) => behind?.requests.includes(request))
    if (instance === undefined) return false
    this.#putBack(instance.takeBack()!)
    return true
  }

  /** Takes all of a model back, the last of them first: an instance is idle that could start them. */
  takeBack(model: number): void {
    const own = this.#instances.filter(({ behind }) => behind?.model === model)
    if (own.length > 1) own.sort((a, b) => b.behind!.number - a.behind!.number)
    for (const instance of own) this.#putBack(instance.takeBack()!)
  }

  /** The same where a request has come that is to be served before one of them. */
  yieldTo(model: number, request: SimulatedRequest): void {
    if (
      this.#instances.some(
        ({ behind }) => behind?.model === model && isOvertaken(behind.requests[0]!, request),
      )
    )
      this.takeBack(model)
  }
}

function isOvertaken(first: SimulatedRequest, by: SimulatedRequest): boolean {
  if (by.level.level < first.level.level) return true
  return by.bucketKey !== first.bucketKey && expiresAtMs(by) < expiresAtMs(first)
}
