import { InlineBudget } from 'zerohop/internals'
import type { ApplicationThread } from './application-thread.ts'
import { BatchesAhead } from './batches-ahead.ts'
import type { Delays } from './delays.ts'
import type { Overheads } from './overheads.ts'
import type { RunDurations } from './service-times.ts'
import { costsOf, type SimulatedCosts } from './simulated-costs.ts'
import { SimulatedInstance, type InstanceOwner, type Run } from './simulated-instance.ts'
import type { SimulatedQueue } from './simulated-queue.ts'
import { rowsOf, type SimulatedRequest } from './simulated-request.ts'
import type { SimulationRecord } from './simulation-record.ts'
import type { Traffic } from './traffic.ts'
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
