import { type Clock, expiresAtMs, FairShare, InlineBudget, leftOfRunMs, RunPlace } from 'zerohop/internals'
import { Fifo } from './traffic.ts'
import { costsOf } from './simulated-costs.ts'
import { rowsOf, type SimulatedQueue, type SimulatedRequest } from './simulated-queue.ts'
import type { SimulationRecord } from './simulation-result.ts'
import type { SimulationInputs } from './run-simulation.ts'
import type { VirtualClock } from './virtual-clock.ts'

/** What {@link SimulatedInstances} use. */
interface InstancesContext extends Pick<
  SimulationInputs,
  'traffic' | 'costs' | 'durations' | 'slowdown' | 'overheads' | 'delays'
> {
  readonly clock: VirtualClock
  readonly thread: ApplicationThread
  readonly record: SimulationRecord
}

/**
 * All instances, and how they are assigned: a queue is offered the idle ones first, then the one that will be
 * free soonest.
 */
export class SimulatedInstances {
  /** Time that instances spent on runs, in milliseconds. */
  busyMs = 0
  readonly queues: SimulatedQueue[] = []
  readonly #all: readonly SimulatedInstance[]
  readonly #idle: SimulatedInstance[]
  /** Queues with new or due requests that no idle instance has checked yet. */
  readonly #pending = new Set<SimulatedQueue>()
  readonly #context: InstancesContext
  readonly #inline: InlineBudget | null
  #running = 0
  #formed = 0

  constructor(count: number, models: number, context: InstancesContext) {
    this.#all = Array.from({ length: count }, () => new SimulatedInstance(models, context.clock, this))
    this.#idle = [...this.#all]
    this.#context = context
    const { clock, overheads } = context
    this.#inline = overheads.inline === null ? null : new InlineBudget(clock, overheads.inline)
  }

  get anyIdle(): boolean {
    return this.#idle.length > 0
  }

  /** Whether an instance could take a batch. */
  get hasRoom(): boolean {
    return this.#all.some(({ hasRoom }) => hasRoom)
  }

  /** Milliseconds until the first instance could start another batch. */
  freeInMs(): number {
    if (this.#idle.length > 0) return 0
    let soonestMs = Infinity
    for (const instance of this.#all) soonestMs = Math.min(soonestMs, instance.freeInMs())
    return soonestMs
  }

  /** Number of models with requests that wait for an instance, at least 1. */
  contenders(): number {
    return Math.max(1, this.#pending.size)
  }

  /** A request of `queue` has arrived or become due. {@link offer} then offers it to instances. */
  note(queue: SimulatedQueue): void {
    this.#pending.add(queue)
  }

  /**
   * Offers noted queues to the idle instances, and a full batch of `queue` to the one that will be free
   * soonest.
   */
  offer(queue: SimulatedQueue): void {
    while (this.#idle.length > 0 && this.#pending.size > 0) if (!this.#offerIdle()) break
    while (queue.hasFull) if (!this.#offerAhead()) return
  }

  /** Milliseconds that a run starting now takes if nothing else runs. */
  started(run: Run): number {
    const { durations, record, costs } = this.#context
    if (run.ahead) this.queues[run.model]!.started(run.requests)
    record.started(run.requests.length, run.rows, run.startMs)
    if (costs !== undefined) record.costed(costsOf(run.requests, costs.isPadded ?? true))
    this.#nowRunning(this.#running + 1)
    const { bucketKey, index } = run.requests[0]!
    return run.inlineMs ?? durations.draw(bucketKey, run.size, run.startMs, index)
  }

  /** From the end of a run until the prefetched one starts. */
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
      return this.#told(instance, run, tookMs) // before it does anything else
    }
    const told = () => thread.whenFree(() => this.#told(instance, run, tookMs))
    const wakeMs = delays.wakeMs(run.requests[0]!.index)
    if (wakeMs > 0) clock.setTimer(told, wakeMs)
    else told()
  }

  /**
   * The application's thread is notified of the end of a run. It serves the instance first, then the answers.
   */
  #told(instance: SimulatedInstance, run: Run, tookMs: number): void {
    const { thread, delays, record, traffic } = this.#context
    this.queues[run.model]!.ran(run.requests, run.rows, tookMs)
    instance.told()
    if (instance.isIdle && !this.#idle.includes(instance)) {
      this.#idle.push(instance)
      for (const { behind } of this.#all) if (behind !== null) this.note(this.queues[behind.model]!) // it may be revoked
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
    for (let turn = turns.next(); turn !== null; turn = turns.next()) {
      const { source: model, lastMs } = turn
      if (!idle && this.queues.length > 1 && lastMs > handAheadBelowMs) return false
      const queue = this.queues[model]!
      if (idle && this.#all.length > 1) this.#revoke(model)
      const requests = queue.waiting > 0 ? queue.take(idle, idle ? 0 : instance.freeInMs()) : null
      if (queue.waiting === 0) this.#pending.delete(queue)
      if (requests !== null) {
        this.#handOver(instance, queue, requests, idle)
        return true
      }
      // When the instance is free it is this model's turn, so no other model may prefetch.
      if (!idle && queue.waiting > 0) return false
      turns.deactivate(model)
      this.#pending.delete(queue) // a request that waits for a delay is noted again when the delay ends
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

  /** The size that determines a run's time. */
  #sizeOf(requests: readonly SimulatedRequest[], rows: number): number {
    const { costs } = this.#context
    return costs === undefined ? rows : Math.ceil(costsOf(requests, costs.isPadded ?? true).batchCost)
  }

  /** Revokes the prefetched batch of a request; false if it is not prefetched. */
  revokeBatchOf(request: SimulatedRequest): boolean {
    const instance = this.#all.find(({ behind }) => behind?.requests.includes(request))
    if (instance === undefined) return false
    this.#putBack(instance)
    return true
  }

  /** Revokes batches that would run before a new request which is to be served first. */
  yieldTo(model: number, request: SimulatedRequest): void {
    if (this.#all.some(({ behind }) => behind?.model === model && isOvertaken(behind.requests[0]!, request)))
      this.#revoke(model)
  }

  /** Revokes all prefetched batches of a model, the last first: an idle instance could start them. */
  #revoke(model: number): void {
    const own = this.#all.filter(({ behind }) => behind?.model === model)
    if (own.length > 1) own.sort((a, b) => b.behind!.number - a.behind!.number)
    for (const instance of own) this.#putBack(instance)
  }

  /** Returns the requests of an instance's prefetched batch to their queue. */
  #putBack(instance: SimulatedInstance): void {
    const run = instance.revoke()
    const queue = this.queues[run.model]!
    queue.putBack(run.requests)
    this.note(queue)
  }

  /** Duration of a batch that the application's thread runs itself; `null` for one that is dispatched. */
  #inlineMs(
    instance: SimulatedInstance,
    queue: SimulatedQueue,
    { bucketKey, index }: SimulatedRequest,
    size: number,
    atMs: number,
  ): number | null {
    const { durations } = this.#context
    if (
      this.#inline === null ||
      !this.#inline.allows(durations.expectedMs(bucketKey, size), instance, queue.waiting > 0)
    )
      return null
    return this.#spentMs(durations.draw(bucketKey, size, atMs, index))
  }

  /** The application's thread is busy for this time. */
  #spentMs(ms: number): number {
    this.#context.thread.spend(ms)
    return ms
  }
}

/** A batch on an instance. */
interface Run {
  /** Later runs have greater numbers. */
  readonly number: number
  readonly model: number
  readonly requests: readonly SimulatedRequest[]
  readonly rows: number
  /** What determines its duration: its rows, or its cost. */
  readonly size: number
  readonly charge: ReturnType<FairShare<number>['charge']>
  /** Expected duration; 0 if unknown. */
  readonly expectedMs: number
  /** When it has been gathered and dispatched. */
  readyAtMs: number
  /** Duration on the application's thread; `null` if it was dispatched. */
  readonly inlineMs: number | null
  /** Whether its queue counts it as prefetched. */
  readonly ahead: boolean
  startMs: number
}

/** Runs one batch at a time, with at most one prefetched batch. */
class SimulatedInstance {
  /** Whose turn it is among the models, as on the library's workers. */
  readonly turns = new FairShare<number>()
  readonly runPlace = new RunPlace()
  running: Run | null = null
  behind: Run | null = null
  /** Ended runs that the application's thread was not notified of yet. */
  #untold = 0
  readonly #clock: VirtualClock
  readonly #owner: SimulatedInstances
  #timer: unknown = null
  /** Current slowdown factor of the run. */
  #factor = 1
  #leftMs = 0 // of the run, without slowdown
  #asOfMs = 0

  constructor(models: number, clock: VirtualClock, owner: SimulatedInstances) {
    for (let model = 0; model < models; model++) this.turns.join(model)
    this.#clock = clock
    this.#owner = owner
  }

  /** Whether it has no batch, as far as the application's thread knows. */
  get isIdle(): boolean {
    return this.#out === 0
  }

  /** Whether it can take a batch: one that runs, and one prefetched. */
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

  /** Revokes the prefetched batch. */
  revoke(): Run {
    const behind = this.behind!
    this.behind = null
    this.turns.refund(behind.charge)
    return behind
  }

  /** Milliseconds until it could start another batch, as far as known. */
  freeInMs(): number {
    const { running, behind } = this
    if (running === null) return this.isIdle ? 0 : leftOfRunMs(0)
    const leftMs = running.startMs + running.expectedMs - this.#clock.nowMs()
    return leftOfRunMs(leftMs) + (behind?.expectedMs ?? 0)
  }

  /** Sets the slowdown factor for runs from now on, including the rest of the current one. */
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

/** The thread that accepts requests, gathers, scatters and answers. Each of these delays the others. */
export class ApplicationThread {
  readonly #clock: Clock
  readonly #waiting = new Fifo<() => void>()
  #freeAtMs = 0
  #alarmed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls `action` when earlier work is done; at once if there is none. */
  whenFree(action: () => void): void {
    if (this.#waiting.size === 0 && !this.#alarmed && this.#freeAtMs <= this.#clock.nowMs()) return action()
    this.#waiting.push(action)
    this.#setAlarm()
  }

  /** Adds work of this duration; returns when it will be done. */
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

/**
 * As on the library's workers: where models share an instance, only runs shorter than this are prefetched.
 */
const handAheadBelowMs = 5

function isOvertaken(first: SimulatedRequest, by: SimulatedRequest): boolean {
  if (by.level.level < first.level.level) return true
  return by.bucketKey !== first.bucketKey && expiresAtMs(by) < expiresAtMs(first)
}
