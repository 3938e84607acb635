import { Instance, type InstanceOwner, type Run } from './instance.ts'
import type { ModelQueue } from './model-queue.ts'
import type { Recorder } from './recorder.ts'
import { rowsOf } from './request.ts'
import type { Estimator } from './service-times.ts'
import type { VirtualClock } from './virtual-clock.ts'

/** All instances, and who gets them: a queue is offered the idle ones first, then the one that is free soonest. */
export class Instances implements InstanceOwner {
  /** Time that instances spent on runs, in milliseconds. */
  busyMs = 0
  readonly queues: ModelQueue[] = []
  readonly #all: readonly Instance[]
  readonly #idle: Instance[]
  /** Queues at which no idle instance has looked since something came there or fell due. */
  readonly #pending = new Set<ModelQueue>()
  readonly #clock: VirtualClock
  readonly #service: Estimator
  readonly #recorder: Recorder

  constructor(count: number, models: number, clock: VirtualClock, service: Estimator, recorder: Recorder) {
    this.#all = Array.from({ length: count }, () => new Instance(models, clock, this))
    this.#idle = [...this.#all]
    this.#clock = clock
    this.#service = service
    this.#recorder = recorder
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
  note(queue: ModelQueue): void {
    this.#pending.add(queue)
  }

  /** Offers what is noted to the idle instances, and a full batch of `queue` to the one that is free soonest. */
  offer(queue: ModelQueue): void {
    while (this.#idle.length > 0 && this.#pending.size > 0) if (!this.#offerIdle()) break
    while (queue.hasFull) if (!this.#offerAhead()) return
  }

  started(run: Run): number {
    const tookMs = this.#service.draw(run.rows, run.startMs)
    this.busyMs += tookMs
    this.#recorder.started(run.requests.length, run.rows, run.startMs)
    return tookMs
  }

  ended(instance: Instance, run: Run): void {
    const nowMs = this.#clock.nowMs()
    for (const request of run.requests) this.#recorder.answered(request, nowMs)
    this.queues[run.model]!.ran(run.requests, run.rows, nowMs - run.startMs)
    if (instance.running === null) {
      this.#idle.push(instance)
      while (this.#idle.length > 0 && this.#pending.size > 0) if (!this.#offerIdle()) break
    }
    if (instance.behind === null) this.#offerTo(instance, false)
  }

  #offerIdle(): boolean {
    const instance = this.#idle.at(-1)!
    if (!this.#offerTo(instance, true)) return false
    this.#idle.pop()
    return true
  }

  #offerAhead(): boolean {
    let soonest: Instance | null = null
    for (const instance of this.#all) {
      if (instance.behind === null && (soonest === null || instance.freeInMs() < soonest.freeInMs())) soonest = instance
    }
    return soonest !== null && this.#offerTo(soonest, false)
  }

  #offerTo(instance: Instance, idle: boolean): boolean {
    const { turns } = instance
    for (const queue of this.#pending) turns.activate(queue.model)
    for (let model = turns.next(); model !== null; model = turns.next()) {
      if (!idle && !turns.mayHandAhead) return false
      const queue = this.queues[model]!
      const requests = queue.waiting > 0 ? queue.take(idle, idle ? 0 : instance.freeInMs()) : null
      if (queue.waiting === 0) this.#pending.delete(queue)
      if (requests !== null) {
        const rows = rowsOf(requests)
        const expectedMs = queue.expectedMs(rows)
        instance.submit({ model, requests, rows, charge: turns.charge(model, expectedMs), expectedMs, startMs: 0 })
        return true
      }
      // It is this model's turn as soon as the instance is free; nobody may be handed ahead of it.
      if (!idle && queue.waiting > 0) return false
      turns.deactivate(model)
      this.#pending.delete(queue) // what waits for a delay is noted again when that ends
    }
    return false
  }
}
