import { InferenceError, invalidArgument } from '../../errors.ts'
import type { SequenceOptions } from '../../options/infer-options.ts'

/** Sequences of which is remembered why they ended. */
const mostRemembered = 1000

/** The errors of sequences of one model, which say why a sequence has ended where that is known. */
export class SequenceErrors {
  readonly #model: string
  readonly #reasons = new Map<string, string>()

  constructor(model: string) {
    this.#model = model
  }

  /** Notes why a sequence has ended. */
  remember(key: string, reason: string): void {
    this.#reasons.delete(key)
    this.#reasons.set(key, reason)
    if (this.#reasons.size > mostRemembered) this.#reasons.delete(this.#reasons.keys().next().value!)
  }

  /** Under an id of which it was noted another sequence begins. */
  forget(key: string): void {
    this.#reasons.delete(key)
  }

  /** For a request that does not begin a sequence and belongs to none. */
  unknown(key: string, { id }: SequenceOptions, maxIdleMs: number): InferenceError {
    const reason =
      this.#reasons.get(key) ??
      `has not begun, has ended, was without a request for ${maxIdleMs} ms, or was begun on what its model has replaced`
    const hint = `Sequence ${String(id)} ${reason}`
    return invalidArgument('options.sequenceStart', 'true for the first request of a sequence', false, {
      code: 'ERR_SEQUENCE_ENDED',
      model: this.#model,
      hint,
    })
  }

  /** For one that waited behind another, with which its sequence has ended. */
  ended(id: SequenceOptions['id'], reason: string, cause: unknown): InferenceError {
    const message = `Sequence ${String(id)} of model '${this.#model}' ${reason}; begin it anew.`
    return new InferenceError('ERR_SEQUENCE_ENDED', message, {
      model: this.#model,
      ...(cause === undefined ? {} : { cause }),
    })
  }

  /** The same for one that waited for its sequence to come under way. */
  expired(id: SequenceOptions['id'], cause: unknown): InferenceError {
    const message = `Sequence ${String(id)} of model '${this.#model}' waited for others to end longer than a request of it may wait; begin it anew.`
    return new InferenceError('ERR_TIMEOUT', message, { model: this.#model, cause })
  }
}
