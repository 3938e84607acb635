import type { FinishedBatch } from './finished-batch.ts'
import { unexpectedOutputs } from './scatter.ts'

/** Outputs of a model that have turned out to be of other sizes than reckoned: they get no place in a slot any more. */
export class UnpredictableOutputs {
  readonly #joined = new Set<number>()
  readonly #whole = new Set<number>() // the same for requests that run as they are

  /**
   * @param needed indices of the outputs that requests have: what others are like is all one.
   * @param outputs how many there are.
   */
  constructor(needed: readonly number[] = [], outputs = 0) {
    for (let index = 0; index < outputs; index++) if (!needed.includes(index)) this.#joined.add(index)
  }

  /** Their indices, for a batch whose requests run as they are or joined. */
  of(whole: boolean): ReadonlySet<number> {
    return whole ? this.#whole : this.#joined
  }

  /** Looks at what a batch has given; true when one was found. */
  note(batch: FinishedBatch): boolean {
    const unexpected = unexpectedOutputs(batch)
    for (const index of unexpected) (batch.requests[0]!.whole ? this.#whole : this.#joined).add(index)
    return unexpected.length > 0
  }
}
