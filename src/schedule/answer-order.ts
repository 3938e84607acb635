import type { Answer, InferRequest } from '../request/infer-request.ts'

/** How a request has ended. */
export type Outcome = { readonly answer: Answer } | { readonly reason: unknown }

/** The same of one that waits for its turn to be answered: `count` is called when it is, if nothing else has ended it. */
export type HeldOutcome = Outcome & { readonly count: () => void }

/** Settled places at the front of the line before it is shortened. */
const compactFrom = 1024

/**
 * Answers requests in the order in which they were accepted, whichever instance is faster. A request that was settled
 * in another way (a timeout, an abort) gives its place up at once. What is held back counts as waiting at its level.
 */
export class AnswerOrder {
  #line: InferRequest[] = []
  #front = 0
  /** Of the requests that are held back. */
  readonly #outcomes = new Map<InferRequest, HeldOutcome>()
  /** Requests settled in another way since the line was last rid of such. */
  #left = 0

  /** Requests that have ended and are held back. */
  get held(): number {
    return this.#outcomes.size
  }

  /** Requests that have not ended, in their order. */
  get awaited(): InferRequest[] {
    return this.#line.slice(this.#front).filter((request) => !request.settled && !this.#outcomes.has(request))
  }

  /** Whether nothing is to be answered before a request. */
  isNext(request: InferRequest): boolean {
    return this.#line[this.#front] === request
  }

  /** Gives a request its place. */
  accept(request: InferRequest): void {
    this.#line.push(request)
  }

  /** Notes how a request ended, and answers all whose turn it is. */
  ended(request: InferRequest, outcome: HeldOutcome): void {
    this.#outcomes.set(request, outcome)
    request.level.waiting++
    this.#release()
  }

  /** A request was settled in another way: nothing of it is kept, however long those before it take. */
  left(request: InferRequest): void {
    this.#take(request)
    if (++this.#left * 2 > this.#line.length - this.#front) {
      this.#line = this.#line.slice(this.#front).filter(({ settled }) => !settled)
      this.#front = this.#left = 0
    }
    this.#release()
  }

  #take(request: InferRequest): HeldOutcome | undefined {
    const outcome = this.#outcomes.get(request)
    if (this.#outcomes.delete(request)) request.level.waiting--
    return outcome
  }

  /** Answers all whose turn it is. */
  #release(): void {
    while (this.#front < this.#line.length) {
      const request = this.#line[this.#front]!
      const outcome = this.#take(request)
      if (outcome === undefined && !request.settled) break
      this.#front++ // its caller may settle others of the line at once
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
