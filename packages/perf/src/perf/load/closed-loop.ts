import type { SampleSource } from '../input/sample-source.ts'
import { Ending, type Load, type Send } from './load.ts'
import type { Recorder } from './recorder.ts'

/**
 * Callers that each wait for an answer before the next request, so that the number of concurrent requests is
 * constant.
 */
export class ClosedLoop implements Load {
  readonly isOpen = false
  readonly #source: SampleSource
  readonly #callers: Promise<void>[] = []
  readonly #finished = new Ending()
  readonly #concurrency: number
  #send: Send | null = null
  #recorder: Recorder | null = null
  #left: number
  #stopped = false

  /** @param requestCount number of requests after which it finishes. Default: no limit. */
  constructor(source: SampleSource, concurrency: number, requestCount = Infinity) {
    this.#source = source
    this.#concurrency = concurrency
    this.#left = requestCount
  }

  get finished(): Promise<void> {
    return this.#finished.promise
  }

  start(send: Send, recorder: Recorder): void {
    this.#send = send
    this.#recorder = recorder
    this.raiseTo(this.#concurrency)
  }

  /** Adds callers up to this number. */
  raiseTo(concurrency: number): void {
    while (this.#callers.length < concurrency) this.#callers.push(this.#call(this.#callers.length))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#callers)
  }

  async #call(caller: number): Promise<void> {
    const send = this.#send!
    const recorder = this.#recorder!
    while (!this.#stopped && this.#left > 0) {
      this.#left--
      const sample = this.#source.next(caller)
      const sentMs = recorder.sent()
      try {
        await send(sample)
        recorder.answered(sentMs, sentMs, sample)
      } catch (error) {
        recorder.failed(sentMs, sentMs, sample, error)
        this.#source.failed?.(caller)
        // A request that is refused at once would be repeated at once, and block the event loop.
        await new Promise<void>((resolve) => recorder.clock.nextTurn(resolve))
      }
    }
    if (this.#left === 0 && recorder.pending === 0) this.#finished.resolve()
  }
}

/** The first and last number of callers, and the step. */
export interface ConcurrencySteps {
  readonly start: number
  readonly end: number
  readonly step: number
  /** Answers between two steps. */
  readonly period: number
}

/**
 * A closed loop that adds callers every so many answers. It finishes when the last step has had as many
 * answers.
 */
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
