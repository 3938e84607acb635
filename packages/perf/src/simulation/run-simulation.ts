import { PriorityLevels, type LevelOptions, type Clock } from 'zerohop/internals'
import { ApplicationThread, SimulatedInstances } from './simulated-instances.ts'
import type { Delays, Overheads } from './delays.ts'
import type { RunDurations } from './service-times.ts'
import { meanCost, type SimulatedCosts } from './simulated-costs.ts'
import {
  partsOf,
  type QueueContext,
  type QueueSettings,
  type SimulatedQueue,
  type SimulatedRequest,
} from './simulated-queue.ts'
import { SimulationRecord, type SimulationResult, summarise } from './simulation-result.ts'
import type { Coming, Traffic } from './traffic.ts'
import { VirtualClock } from './virtual-clock.ts'

/** All inputs of a simulation. */
export interface SimulationInputs {
  readonly traffic: Traffic
  readonly models: number
  readonly settings: QueueSettings
  readonly levels: LevelOptions
  /** Whether requests with more rows than a batch may have are split. */
  readonly splitOversized: boolean
  /** Costs of requests, which then determine run times; left out if rows do. */
  readonly costs?: SimulatedCosts | undefined
  readonly durations: RunDurations
  /** The run times with which a model calibrates itself. */
  readonly calibration: RunDurations
  /** Factors by which runs get slower when 1, 2, ... run at once; the last one also holds for more. */
  readonly slowdown: readonly number[]
  readonly overheads: Required<Overheads>
  readonly delays: Delays
  /** Length of intervals with separate figures in the result; 0 for none. */
  readonly timelineMs: number
  makeQueue(context: QueueContext): SimulatedQueue
}

/** Processes requests in virtual time. */
class Simulation {
  readonly #inputs: SimulationInputs
  readonly #clock = new VirtualClock()
  readonly #thread = new ApplicationThread(this.#clock)
  readonly #record: SimulationRecord
  readonly #instances: SimulatedInstances
  readonly #levels: readonly PriorityLevels[]
  readonly #reached = new Set<SimulatedQueue>()
  /** The parts of split requests, by index. */
  readonly #parts = new Map<number, readonly SimulatedRequest[]>()
  /** The clock of the queues. Its timers are late. */
  readonly #lateClock: Clock
  #came = 0
  #offerScheduled = false

  constructor(inputs: SimulationInputs) {
    const { traffic, models, settings, calibration, delays } = inputs
    this.#inputs = inputs
    const virtual = this.#clock
    this.#lateClock = {
      nowMs: () => virtual.nowMs(),
      setTimer: (callback, delayMs) =>
        virtual.setTimer(callback, delayMs + delays.timerMs(Math.max(0, this.#came - 1))),
      clearTimer: (timer) => virtual.clearTimer(timer),
    }
    this.#record = new SimulationRecord(traffic.count, settings.targetMs, inputs.timelineMs)
    const context = { ...inputs, clock: this.#clock, thread: this.#thread, record: this.#record }
    this.#instances = new SimulatedInstances(settings.instances, models, context)
    this.#levels = Array.from({ length: models }, () => new PriorityLevels(inputs.levels))
    for (let model = 0; model < models; model++)
      this.#instances.queues.push(this.#queueOf(model, calibration))
  }

  run(): SimulationResult {
    const wallFromMs = performance.now()
    const { traffic, settings } = this.#inputs
    for (;;) {
      const arrivalMs = traffic.nextMs
      if (this.#clock.nextMs <= arrivalMs) {
        if (this.#clock.nextMs === Infinity) break
        this.#clock.fireNext()
        continue
      }
      this.#clock.advanceTo(arrivalMs)
      this.#arrive(arrivalMs)
    }
    return summarise(
      settings.targetMs,
      settings.instances,
      this.#record,
      this.#instances.busyMs,
      performance.now() - wallFromMs,
    )
  }

  #queueOf(model: number, calibration: RunDurations): SimulatedQueue {
    const instances = this.#instances
    const { costs } = this.#inputs
    const rowSize = costs === undefined ? 1 : meanCost(costs)
    const queue = this.#inputs.makeQueue({
      model,
      settings: this.#inputs.settings,
      clock: this.#lateClock,
      calibrationMs: (rows) => calibration.draw('', Math.ceil(rows * rowSize), 0, 0),
      drop: (request) => {
        if (!this.#record.dropped(request)) return
        this.#ended(request.index)
        for (const part of this.#parts.get(request.index) ?? []) if (part !== request) queue.withdraw(part)
      },
      revoke: (request) => {
        if (!instances.revokeBatchOf(request)) return false
        this.#reached.add(queue)
        this.#clock.setTimer(() => this.#offerSoon(0, request.index, request.index), 0) // not before it has left the queue
        return true
      },
      wake: () => {
        instances.note(queue)
        instances.offer(queue)
      },
      freeInMs: () => instances.freeInMs(),
      sharing: () => instances.contenders(),
      rowsAhead: ({ level, decodeMs }) => this.#levels[model]!.rowsAhead(level, decodeMs > 0),
    })
    return queue
  }

  /** Accepts all requests of one moment before anything is started. */
  #arrive(atMs: number): void {
    const { traffic, settings, overheads, splitOversized } = this.#inputs
    const group: Coming[] = []
    while (traffic.nextMs <= atMs) {
      const coming = traffic.take()
      if (coming.rows > settings.maxBatchSize && !splitOversized)
        throw new RangeError(`A request has ${coming.rows} rows, a batch ${settings.maxBatchSize} at most.`)
      this.#record.arrived(this.#came + group.length, coming.cameMs ?? atMs)
      group.push(coming)
    }
    const first = this.#came
    this.#came += group.length
    this.#thread.whenFree(() => {
      for (const [at, coming] of group.entries()) this.#takeIn(first + at, coming)
      this.#thread.spend(group.length * overheads.requestMs)
      this.#offerSoon(atMs - (group[0]!.cameMs ?? atMs), first, first + group.length - 1)
    })
  }

  #takeIn(index: number, coming: Coming): void {
    const { cancelMs, sharedMs, model, rows } = coming
    const nowMs = this.#clock.nowMs()
    if (sharedMs !== undefined)
      return void this.#clock.setTimer(() => this.#answerShared(index, rows), sharedMs)
    const queue = this.#instances.queues[model]!
    const parts = partsOf(index, coming, this.#inputs.settings.maxBatchSize, this.#levels[model]!, nowMs)
    const [first, ...others] = parts as [SimulatedRequest, ...SimulatedRequest[]]
    if (!queue.arrive(first)) {
      this.#record.refused(first)
      this.#ended(index)
      return
    }
    this.#record.accepted(index, parts.length)
    if (others.length > 0) this.#parts.set(index, parts)
    for (const part of others) {
      part.deadlineAtMs = first.deadlineAtMs
      queue.join(part)
    }
    if (cancelMs !== undefined) this.#clock.setTimer(() => this.#withdraw(queue, parts), cancelMs)
    this.#instances.note(queue)
    this.#instances.yieldTo(model, first)
    this.#reached.add(queue)
  }

  #answerShared(index: number, wholeRows: number): void {
    if (this.#record.answered({ index, wholeRows }, this.#clock.nowMs())) this.#ended(index)
  }

  #withdraw(queue: SimulatedQueue, parts: readonly SimulatedRequest[]): void {
    for (const part of parts) queue.withdraw(part)
    if (this.#record.withdrawn(parts[0]!)) this.#ended(parts[0]!.index)
  }

  #ended(index: number): void {
    this.#inputs.traffic.ended(this.#clock.nowMs(), index)
  }

  /**
   * Requests that arrive before the event loop runs may join, unless a batch is full.
   *
   * @param sinceMs how long ago the first of them arrived.
   */
  #offerSoon(sinceMs: number, first: number, last: number): void {
    const { delays } = this.#inputs
    const offer = () => this.#thread.whenFree(() => this.#offerReached())
    if ([...this.#reached].some(({ hasFull }) => hasFull)) {
      if (this.#instances.hasRoom) this.#thread.spend(delays.closingMs(last))
      return offer()
    }
    if (this.#offerScheduled) return
    const turnMs = this.#instances.anyIdle ? delays.turnMs(first) - sinceMs : 0
    if (turnMs <= 0) return offer()
    this.#offerScheduled = true
    this.#clock.setTimer(() => {
      this.#offerScheduled = false
      offer()
    }, turnMs)
  }

  #offerReached(): void {
    for (const queue of this.#reached) queue.flush()
    for (const queue of this.#reached) this.#instances.offer(queue)
    this.#reached.clear()
  }
}

/**
 * Processes requests in virtual time.
 *
 * @throws {RangeError} if a request has more rows than a batch may have.
 */
export function runSimulation(inputs: SimulationInputs): SimulationResult {
  return new Simulation(inputs).run()
}
