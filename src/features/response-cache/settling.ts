import type { InferRequest } from '../../request/infer-request.ts'
import { AnswerOrder, settle, type HeldOutcome } from '../../schedule/answers.ts'

/** Settles requests, in the order in which they came where that is to be kept. */
export class Settling {
  readonly #order: AnswerOrder | null

  constructor(preserveOrdering: boolean) {
    this.#order = preserveOrdering ? new AnswerOrder() : null
  }

  /** A request has come: its place among the responses is the next. */
  accept(request: InferRequest): void {
    this.#order?.accept(request)
  }

  /** A request has come to its end: it is settled now, or when it is its turn. */
  end(request: InferRequest, outcome: HeldOutcome): void {
    if (request.settled) return // withdrawn since
    if (this.#order === null) settle(request, outcome)
    else this.#order.ended(request, outcome)
  }

  /** Rejects a request at once, whoever came before it. */
  reject(request: InferRequest, reason: unknown, isWithdrawn = false): void {
    request.fail(reason, isWithdrawn)
    this.#order?.release()
  }
}
