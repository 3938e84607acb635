import type { SampleSource } from '../input/sample-source.ts'
import { Ending, type Load, type Send } from './load.ts'
import type { Recorder } from './recorder.ts'

/** The first and last number of callers, and the step. */
export interface ConcurrencySteps {
  readonly start: number
  readonly end: number
  readonly step: number
  /** Answers between two steps. */
  readonly period: number
}

/**
 * Callers that each wait for an answer before the next request, so that the number of concurrent requests is
 * constant; or grows by steps, and then it finishes when the last step has had as many answers as each.
 */
export class ClosedLoop implements Load {
  readonly isOpen = false
  readonly #source: SampleSource
  readonly #callers: Promise<void>[] = []
  readonly #finished = new Ending()
  readonly #concurrency: number
  readonly #steps: ConcurrencySteps | null
  #send: Send | null = null
  #recorder: Recorder | null = null
  #left: number
  #ended = 0
  #stopped = false

  /**
   * @param requestCount number of requests after which it finishes. Default: no limit.
   * @param steps how callers are added to the first ones. Default: none are.
   */
  constructor(
    source: SampleSource,
    concurrency: number,
    requestCount = Infinity,
    steps: ConcurrencySteps | null = null,
  ) {
    this.#source = source
    this.#concurrency = concurrency
    this.#left = requestCount
    this.#steps = steps
  }

  get finished(): Promise<void> {
    return this.#finished.promise
  }

  start(send: Send, recorder: Recorder): void {
    const steps = this.#steps
    const counted: Send = async (sample) => {
      try {
        return await send(sample)
      } finally {
        if (++this.#ended % steps!.period === 0) this.#grow(steps!)
      }
    }
    this.#send = steps === null ? send : counted
    this.#recorder = recorder
    this.#raiseTo(this.#concurrency)
  }

  #grow({ end, step }: ConcurrencySteps): void {
    const { length } = this.#callers
    if (length >= end) void this.stop().then(this.#finished.resolve)
    else this.#raiseTo(Math.min(end, length + step))
  }

  #raiseTo(concurrency: number): void {
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
