import type { Clock } from '../../base/clock.ts'
import type { Observers } from '../observers.ts'
import { ArrivalFile } from './arrival-file.ts'
import { ArrivalOrder } from './arrival-order.ts'
import { ArrivalRecorder } from './arrival-recorder.ts'

/**
 * Requests being recorded, for `zerohop perf --replay` and `zerohop simulate`: a line of JSON each, in the order in which they came,
 * an {@link Arrival}. No request is held up or failed by it: what a disk is too slow or too full for is left out, and counted.
 *
 * `engine.recordArrivals()` throws `ERR_INVALID_ARG` or `ERR_CLOSED`, and what Node.js throws for a file that cannot be written.
 */
export class ArrivalRecording {
  readonly #file: ArrivalFile
  readonly #order: ArrivalOrder
  readonly #recorder: ArrivalRecorder
  readonly #observers: Observers
  readonly #stopped: () => void
  #stopping: Promise<void> | null = null

  /** @internal */
  constructor(
    file: ArrivalFile,
    models: ReadonlySet<string> | null,
    observers: Observers,
    clock: Clock,
    stopped: () => void,
  ) {
    this.#file = file
    this.#stopped = stopped
    this.#order = new ArrivalOrder((arrival) => this.#file.add(arrival))
    this.#recorder = new ArrivalRecorder(this.#order, clock, models)
    this.#observers = observers
    observers.add(this.#recorder)
  }

  /** Requests in the file, or on their way to it. */
  get recorded(): number {
    return this.#file.recorded
  }

  /** Requests that are not, as the disk was too slow or could not be written. */
  get lost(): number {
    return this.#file.lost
  }

  /** Why nothing more is written; `null` while that is not so. */
  get failure(): Error | null {
    return this.#file.failure
  }

  /**
   * Ends the recording and resolves when it is written, or cannot be: see {@link failure}. Requests that are on their way are in it
   * without their latency. May be called more than once; closing the engine does so as well.
   */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop())
  }

  /** As {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #stop(): Promise<void> {
    this.#observers.remove(this.#recorder)
    this.#order.end()
    await this.#file.close()
    this.#stopped()
  }
}
