import { randomUUID } from 'node:crypto'
import type { SequenceId } from '../../options/infer-options.ts'
import type { ElementType } from '../../tensor/tensor.ts'

const largestNumber = 2 ** 31 - 1
/** Ids that callers choose themselves are seldom so large: they begin no sequence anew that has a made one. */
const madeFrom = 2 ** 30

/** An id as text, different for ids of different kinds. */
export function keyOf(id: SequenceId): string {
  return typeof id === 'string' ? `'${id}` : String(id)
}

/** Makes ids of sequences, of the type in which the model is told them. */
export class SequenceIds {
  readonly #type: ElementType | null
  #last = madeFrom

  /** @param type of the correlation id; `null` where the model is not told. */
  constructor(type: ElementType | null) {
    this.#type = type
  }

  /** An id that is not taken. */
  next(taken: ReadonlyMap<string, unknown>): SequenceId {
    if (this.#type === 'string') return randomUUID()
    do this.#last = this.#last === largestNumber ? madeFrom : this.#last + 1
    while (taken.has(keyOf(this.#last)))
    return this.#last
  }
}
