import { Fifo } from '../../../packages/perf/src/simulation/traffic.ts'
import {
  type QueueContext,
  SimulatedQueue,
  type SimulatedRequest,
} from '../../../packages/perf/src/simulation/simulated-queue.ts'

/**
 * A fixed window, as in Ray Serve and LitServe: a batch is sealed when it is full or a delay after its first request,
 * whether or not an instance is idle, and sealed batches wait in line without growing.
 */
export class WindowQueue extends SimulatedQueue {
  waiting = 0
  readonly #context: QueueContext
  readonly #sealed = new Fifo<SimulatedRequest[]>()
  #open: SimulatedRequest[] = []
  #openRows = 0
  #timer: unknown = null

  constructor(context: QueueContext) {
    super(context)
    this.#context = context
  }

  arrive(request: SimulatedRequest): boolean {
    const { maxBatchSize, maxQueueDelayMs } = this.#context.settings
    this.waiting++
    if (this.#openRows + request.rows > maxBatchSize) this.#seal()
    this.#open.push(request)
    this.#openRows += request.rows
    if (this.#openRows >= maxBatchSize) this.#seal()
    else this.#timer ??= this.#context.clock.setTimer(this.#onTimer, maxQueueDelayMs)
    return true
  }

  take(idle: boolean): SimulatedRequest[] | null {
    const batch = (idle ? this.#sealed.shift() : undefined) ?? null
    if (batch !== null) this.waiting -= batch.length
    return batch
  }

  #seal(): void {
    if (this.#timer !== null) this.#context.clock.clearTimer(this.#timer)
    this.#timer = null
    this.#sealed.push(this.#open)
    this.#open = []
    this.#openRows = 0
  }

  readonly #onTimer = (): void => {
    this.#seal()
    this.#context.wake()
  }
}
