import type { CheckedOptions } from '../../options/infer-options.ts'
import type { ObservedModel, RequestObservation } from '../../observe/request-observer.ts'
import type { Observers } from '../../observe/observers.ts'
import type { Answer, ParsedFeeds } from '../../request/infer-request.ts'
import { factsOf } from '../../schedule/observed-requests.ts'

/** A request of a pipeline, as much of it as is told to those who look on. */
interface ObservedRun {
  readonly begunAtMs: number
  readonly observation: RequestObservation | null
}

/** Tells those who look on at an engine of the requests of one pipeline. */
export class ObservedRuns {
  /** Asked for each request. */
  readonly by: Observers
  readonly #model: ObservedModel

  constructor(model: ObservedModel, by: Observers) {
    this.#model = model
    this.by = by
  }

  /**
   * A request has been made.
   *
   * @param parent told of what it is part of, `null` for nobody; left out for one of a caller, or of a function that is run for another.
   */
  begun(
    feeds: ParsedFeeds,
    options: CheckedOptions,
    atMs: number,
    parent: RequestObservation | null | undefined = this.by.parent,
  ): RequestObservation | null {
    if (parent === null) return null
    const facts = factsOf(feeds, options, atMs)
    return parent === undefined
      ? this.by.observer!.begun(this.#model, facts)
      : parent.child(this.#model, facts)
  }
}

/** A request has come to its end. */
export function tellEnd(
  { observation, begunAtMs }: ObservedRun,
  nowMs: number,
  answer: Answer | null,
  reason: unknown,
): void {
  if (answer !== null) observation!.passed(begunAtMs, nowMs)
  observation!.ended(answer !== null, reason, answer)
}
