import type { Answer, InferRequest } from '../request/infer-request.ts'

/** How a request has ended. */
export type Outcome = { readonly answer: Answer } | { readonly reason: unknown }

/** The same of one that waits for its turn to be answered: `count` is called when it is, if nothing else has ended it. */
export type HeldOutcome = Outcome & { readonly count: () => void }

/** Settled places at the front of the line before it is shortened. */
const compactFrom = 1024

/**
 * Answers requests in the order in which they were accepted, whichever instance is faster. A request that was settled
 * in another way (a timeout, an abort) gives its place up at once.
 */
export class AnswerOrder {
  #line: InferRequest[] = []
  #front = 0
  readonly #outcomes = new Map<InferRequest, HeldOutcome>()

  /** Gives a request its place. */
  accept(request: InferRequest): void {
    this.#line.push(request)
  }

  /** Notes how a request ended, and answers all whose turn it is. */
  ended(request: InferRequest, outcome: HeldOutcome): void {
    this.#outcomes.set(request, outcome)
    this.release()
  }

  /** Answers all whose turn it is; to be called after requests were settled in another way. */
  release(): void {
    while (this.#front < this.#line.length) {
      const request = this.#line[this.#front]!
      const outcome = this.#outcomes.get(request)
      if (outcome === undefined && !request.settled) break
      this.#front++ // its caller may settle others of the line at once
      this.#outcomes.delete(request)
      if (outcome !== undefined) settle(request, outcome)
    }
    if (this.#front === this.#line.length) this.#line = []
    else if (this.#front >= compactFrom && this.#front * 2 >= this.#line.length)
      this.#line = this.#line.slice(this.#front)
    else return
    this.#front = 0
  }
}

/** Settles a request as it has ended; counts it where nothing else has done so before. */
export function settle(request: InferRequest, outcome: HeldOutcome): void {
  if (request.settled) return
  outcome.count()
  if ('answer' in outcome) request.succeed(outcome.answer)
  else request.fail(outcome.reason)
}
