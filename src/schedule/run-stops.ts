import type { Clock } from '../base/clock.ts'
import type { Batch } from './batch.ts'
import type { InstanceSet } from './instance-set.ts'
import { Alarm } from '../base/alarm.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { Answers } from './answers.ts'
import type { RequestErrors } from './request-errors.ts'

/** Whom a {@link RunStops} tells. */
export interface StopTargets {
  readonly clock: Clock
  readonly instances: InstanceSet
  readonly answers: Answers
  readonly errors: RequestErrors
}

interface Run {
  readonly batch: Batch
  readonly startedAtMs: number
}

/**
 * Stops runs: those that nobody wants any more, and those that take longer than they may. Of these, whoever has a limit of
 * its own is told as soon as that has passed. The model's limit says only that some request of the batch takes too long:
 * which one, runs of its halves find out; of each by itself where a stop costs the thread, as with functions.
 */
export class RunStops {
  readonly #modelMs: number
  readonly #inParts: 'halves' | 'singly'
  readonly #to: StopTargets
  readonly #alarm: Alarm
  /** Runs that have a limit, by their batch's number. */
  readonly #runs = new Map<number, Run>()
  /** Whether any may have one. */
  #limited: boolean

  /** @param modelMs the model's limit; 0 for none. */
  constructor(modelMs: number, to: StopTargets, inParts: 'halves' | 'singly' = 'halves') {
    this.#modelMs = modelMs
    this.#inParts = inParts
    this.#to = to
    this.#limited = modelMs > 0
    this.#alarm = new Alarm(to.clock, () => this.#look())
  }

  /** The limit that a request has of its own, which asks for `askedMs`; 0 for none. */
  ownLimitMs(askedMs: number | undefined): number {
    if (askedMs === undefined) return 0
    this.#limited = true
    return askedMs
  }

  /** The run of a batch begins. */
  started(batch: Batch): void {
    if (!this.#limited) return
    const limitMs = this.#firstLimitMs(batch, 0)
    if (limitMs === Infinity) return
    const startedAtMs = this.#to.clock.nowMs()
    batch.limited = true
    this.#runs.set(batch.id, { batch, startedAtMs })
    this.#alarm.set(startedAtMs + limitMs)
  }

  /** It is over. */
  ended({ id }: Pick<Batch, 'id'>): void {
    if (this.#runs.delete(id) && this.#runs.size === 0) this.#alarm.clear()
  }

  /** Stops the run that a request is part of, unless somebody else in it still wants an answer. */
  unwanted(request: InferRequest): void {
    const { instances } = this.#to
    const batch = instances.batches.find(({ requests }) => requests.includes(request))
    if (batch?.requests.every(({ settled }) => settled)) instances.stopRun(batch, false)
  }

  /** Rejects all that runs, what came first before the others, and stops it. */
  all(): void {
    const { instances, answers, errors } = this.#to
    for (const batch of instances.batches.sort((a, b) => a.formed - b.formed)) {
      for (const request of batch.requests) answers.reject(request, 'closed', errors.closed(request))
      instances.stopRun(batch, true)
    }
  }

  #look(): void {
    for (const [id, { batch, startedAtMs }] of this.#runs) {
      const tookMs = this.#to.clock.nowMs() - startedAtMs
      this.#check(batch, tookMs)
      const nextMs = this.#firstLimitMs(batch, tookMs)
      if (nextMs !== Infinity && this.#runs.has(id)) this.#alarm.set(startedAtMs + nextMs)
    }
  }

  /** The first limit of a run that comes after `tookMs`; `Infinity` for none. */
  #firstLimitMs({ requests }: Batch, tookMs: number): number {
    let firstMs = Infinity
    for (let member = 0; member < requests.length; member++) {
      const limitMs = requests[member]!.maxRunMs || this.#modelMs
      if (limitMs > tookMs && limitMs < firstMs) firstMs = limitMs
    }
    return firstMs
  }

  #check(batch: Batch, tookMs: number): void {
    const { answers, errors, instances } = this.#to
    for (const request of batch.requests) {
      const limitMs = request.maxRunMs || this.#modelMs
      if (request.settled || limitMs === 0 || limitMs > tookMs) continue
      batch.rerun ??= 'all'
      const isIt = request.maxRunMs > 0 || batch.requests.length === 1
      if (isIt) answers.reject(request, 'timeout', errors.ranTooLong(request, limitMs))
      else batch.rerun = this.#inParts
    }
    if (batch.rerun !== null) instances.stopRun(batch, true)
  }
}
