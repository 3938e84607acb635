import { Fifo } from '../../../packages/perf/src/simulation/traffic.ts'
import {
  SimulatedQueue,
  type SimulatedRequest,
} from '../../../packages/perf/src/simulation/simulated-queue.ts'

/** Every request is a run of its own. */
export class UnbatchedQueue extends SimulatedQueue {
  readonly #queue = new Fifo<SimulatedRequest>()

  get waiting(): number {
    return this.#queue.size
  }

  arrive(request: SimulatedRequest): boolean {
    this.#queue.push(request)
    return true
  }

  take(idle: boolean): SimulatedRequest[] | null {
    return idle && this.#queue.size > 0 ? [this.#queue.shift()!] : null
  }
}
