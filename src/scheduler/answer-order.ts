import type { Answer, InferRequest } from '../request/infer-request.ts'

/** How a run ended for a request that waits for its turn to be answered. */
export type Outcome = { readonly answer: Answer } | { readonly reason: unknown }

/** Settled places at the front of the line before it is shortened. */
const compactFrom = 1024

/**
 * Answers requests in the order in which they were accepted, whichever instance is faster. A request that was settled
 * in another way (a timeout, an abort) gives its place up at once.
 */
export class AnswerOrder {
  #line: InferRequest[] = []
  #front = 0
  readonly #outcomes = new Map<InferRequest, Outcome>()
  readonly #settle: (request: InferRequest, outcome: Outcome) => void

  constructor(settle: (request: InferRequest, outcome: Outcome) => void) {
    this.#settle = settle
  }

  /** Gives a request its place. */
  accept(request: InferRequest): void {
    this.#line.push(request)
  }

  /** Whether a request has ended and waits for its turn. */
  holds(request: InferRequest): boolean {
    return this.#outcomes.has(request)
  }

  /** Notes how a request ended, and answers all whose turn it is. */
  ended(request: InferRequest, outcome: Outcome): void {
    this.#outcomes.set(request, outcome)
    this.release()
  }

  /** Answers all whose turn it is; to be called after requests were settled in another way. */
  release(): void {
    while (this.#front < this.#line.length) {
      const request = this.#line[this.#front]!
      const outcome = this.#outcomes.get(request)
      if (outcome === undefined && !request.settled) break
      this.#front++ // whoever is answered may settle others of the line there and then
      this.#outcomes.delete(request)
      if (outcome !== undefined) this.#settle(request, outcome)
    }
    if (this.#front === this.#line.length) this.#line = []
    else if (this.#front >= compactFrom && this.#front * 2 >= this.#line.length) this.#line = this.#line.slice(this.#front)
    else return
    this.#front = 0
  }
}
