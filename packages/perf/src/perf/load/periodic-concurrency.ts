import type { SampleSource } from '../input/sample.ts'
import { ClosedLoop } from './closed-loop.ts'
import { Ending } from './ending.ts'
import type { Load, Send } from './load.ts'
import type { Recorder } from './recorder.ts'

/** From how many callers to how many, and by how many at a time. */
export interface ConcurrencySteps {
  readonly start: number
  readonly end: number
  readonly step: number
  /** Answers after which callers are added. */
  readonly period: number
}

/** A closed loop whose callers become more, every so many answers; finished when the last of them have had as many. */
export class PeriodicConcurrency implements Load {
  readonly isOpen = false
  readonly #steps: ConcurrencySteps
  readonly #loop: ClosedLoop
  readonly #finished = new Ending()
  #concurrency: number
  #ended = 0

  constructor(source: SampleSource, steps: ConcurrencySteps) {
    this.#steps = steps
    this.#concurrency = steps.start
    this.#loop = new ClosedLoop(source, steps.start)
  }

  get finished(): Promise<void> {
    return this.#finished.promise
  }

  start(send: Send, recorder: Recorder): void {
    const counted: Send = async (sample) => {
      try {
        return await send(sample)
      } finally {
        if (++this.#ended % this.#steps.period === 0) this.#grow()
      }
    }
    this.#loop.start(counted, recorder)
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  #grow(): void {
    const { end, step } = this.#steps
    if (this.#concurrency >= end) {
      void this.#loop.stop().then(this.#finished.resolve)
      return
    }
    this.#concurrency = Math.min(end, this.#concurrency + step)
    this.#loop.raiseTo(this.#concurrency)
  }
}
