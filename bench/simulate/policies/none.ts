import { Fifo } from '../fifo.ts'
import { ModelQueue } from '../model-queue.ts'
import type { SimulatedRequest } from '../request.ts'

/** Every request is a run of its own. */
export class UnbatchedQueue extends ModelQueue {
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
