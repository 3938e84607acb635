import type { FunctionContext, FunctionInstance } from '../../../options/function-module.ts'
import type { RowFailures } from '../executor.ts'
import { messageOf } from '../../../base/message-of.ts'

/** What a function is called with beside its batch. */
export class RunContext implements FunctionContext {
  readonly model: string
  readonly parameters: FunctionInstance['parameters']
  readonly state: unknown
  readonly rows: number
  /** Whether nobody waits for it any more: others may be where it would put what it gives. */
  isLeft = false
  readonly #failures = new Map<number, string>()
  #controller: AbortController | null = null
  #unwanted = false

  constructor({ model, parameters }: FunctionInstance, state: unknown, rows: number) {
    this.model = model
    this.parameters = parameters
    this.state = state
    this.rows = rows
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#unwanted) this.unwanted()
    }
    return this.#controller.signal
  }

  readonly fail = (row: number, error: unknown): null => {
    if (!(Number.isInteger(row) && row >= 0 && row < this.rows))
      throw new RangeError(`context.fail() got row ${row} of a batch that has ${this.rows}`)
    if (!this.#failures.has(row)) this.#failures.set(row, messageOf(error))
    return null
  }

  /** Whether a row has no answer. */
  readonly failed = (row: number): boolean => this.#failures.has(row)

  /** Rows that have no answer; `null` for none. */
  get failures(): RowFailures | null {
    return this.#failures.size === 0 ? null : [...this.#failures]
  }

  /** Nobody wants an answer any more. */
  unwanted(): void {
    this.#unwanted = true
    this.#controller?.abort(new DOMException('Nobody wants the answers of the batch any more.', 'AbortError'))
  }
}
