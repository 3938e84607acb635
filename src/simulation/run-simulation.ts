import { PriorityLevels } from '../queue/priority-levels.ts'
import type { LevelOptions } from '../config/batching.ts'
import { ApplicationThread } from './application-thread.ts'
import type { Overheads } from './overheads.ts'
import type { RunDurations } from './service-times.ts'
import { SimulatedInstances } from './simulated-instances.ts'
import type { QueueContext, QueueSettings, SimulatedQueue } from './simulated-queue.ts'
import { SimulatedRequest } from './simulated-request.ts'
import { SimulationRecord } from './simulation-record.ts'
import { summarise, type SimulationResult } from './simulation-result.ts'
import type { Coming, Traffic } from './traffic.ts'
import { VirtualClock } from './virtual-clock.ts'

/** All that a simulation depends on. */
export interface SimulationInputs {
  readonly traffic: Traffic
  readonly models: number
  readonly settings: QueueSettings
  readonly levels: LevelOptions
  readonly durations: RunDurations
  /** What a model calibrates itself with. */
  readonly calibration: RunDurations
  readonly slowdown: readonly number[]
  readonly overheads: Required<Overheads>
  /** Length of the intervals for which the result has separate figures; 0 for none. */
  readonly timelineMs: number
  makeQueue(context: QueueContext): SimulatedQueue
}

/** Takes requests to their ends in virtual time. */
class Simulation {
  readonly #inputs: SimulationInputs
  readonly #clock = new VirtualClock()
  readonly #thread = new ApplicationThread(this.#clock)
  readonly #record: SimulationRecord
  readonly #instances: SimulatedInstances
  readonly #levels: readonly PriorityLevels[]
  readonly #reached = new Set<SimulatedQueue>()
  #came = 0

  constructor(inputs: SimulationInputs) {
    const { traffic, models, settings, durations: service, calibration, slowdown, overheads } = inputs
    this.#inputs = inputs
    this.#record = new SimulationRecord(traffic.count, settings.maxBatchSize, settings.targetMs, inputs.timelineMs)
    const context = { clock: this.#clock, thread: this.#thread, service, overheads, slowdown, record: this.#record, traffic }
    this.#instances = new SimulatedInstances(settings.instances, models, context)
    this.#levels = Array.from({ length: models }, () => new PriorityLevels(inputs.levels))
    for (let model = 0; model < models; model++) this.#instances.queues.push(this.#queueOf(model, calibration))
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
    return summarise(settings.targetMs, settings.instances, this.#record, this.#instances.busyMs, performance.now() - wallFromMs)
  }

  #queueOf(model: number, calibration: RunDurations): SimulatedQueue {
    const instances = this.#instances
    const queue = this.#inputs.makeQueue({
      model,
      settings: this.#inputs.settings,
      clock: this.#clock,
      calibrationMs: (rows) => calibration.draw('', rows, 0),
      drop: (request) => {
        this.#record.dropped(request)
        this.#inputs.traffic.ended(this.#clock.nowMs())
      },
      wake: () => {
        instances.note(queue)
        instances.offer(queue)
      },
      freeInMs: () => instances.freeInMs(),
      sharing: () => instances.contenders(),
    })
    return queue
  }

  /** Whoever comes at the same moment is taken in before anything is started. */
  #arrive(atMs: number): void {
    const { traffic, settings, overheads } = this.#inputs
    const group: Coming[] = []
    while (traffic.nextMs <= atMs) {
      const coming = traffic.take()
      if (coming.rows > settings.maxBatchSize) throw new RangeError(`A request has ${coming.rows} rows, a batch ${settings.maxBatchSize} at most.`)
      this.#record.arrived(this.#came + group.length, atMs)
      group.push(coming)
    }
    const first = this.#came
    this.#came += group.length
    this.#thread.whenFree(() => {
      for (const [at, coming] of group.entries()) this.#takeIn(first + at, coming)
      this.#thread.spend(group.length * overheads.requestMs)
      this.#thread.whenFree(() => this.#offerReached())
    })
  }

  #takeIn(index: number, coming: Coming): void {
    const queue = this.#instances.queues[coming.model]!
    const request = new SimulatedRequest(index, coming, this.#levels[coming.model]!, this.#clock.nowMs())
    if (queue.arrive(request)) {
      this.#record.accepted()
      this.#instances.note(queue)
      this.#reached.add(queue)
      return
    }
    this.#record.refused(request)
    this.#inputs.traffic.ended(this.#clock.nowMs())
  }

  #offerReached(): void {
    for (const queue of this.#reached) queue.flush()
    for (const queue of this.#reached) this.#instances.offer(queue)
    this.#reached.clear()
  }
}

/**
 * Takes requests to their ends in virtual time.
 *
 * @throws {RangeError} when a request has more rows than a batch may have.
 */
export function runSimulation(inputs: SimulationInputs): SimulationResult {
  return new Simulation(inputs).run()
}
