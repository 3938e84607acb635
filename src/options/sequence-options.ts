import { invalidArgument } from '../errors.ts'

/** Which sequence: a whole number that is not 0, or a string that is not ''. */
export type SequenceId = number | bigint | string

/** The sequence of one request, as `infer()` is told of it in Triton's words; see {@link SequenceConfig}. */
export interface SequenceInferOptions {
  /** The sequence that the request belongs to, for a model with `sequence` in its configuration. Default: none. */
  sequenceId?: SequenceId | undefined
  /** Whether the sequence begins with this request: what was kept under its id is forgotten. Default `false`. */
  sequenceStart?: boolean | undefined
  /** Whether it ends with this request, after which its id is free. Default `false`. */
  sequenceEnd?: boolean | undefined
}

/** The sequence of one request, checked. */
export interface SequenceOptions {
  readonly id: SequenceId
  readonly start: boolean
  readonly end: boolean
}

/** Whether a value can be the id of a sequence. */
export function isSequenceId(id: unknown): id is SequenceId {
  return typeof id === 'string'
    ? id !== ''
    : typeof id === 'bigint'
      ? id !== 0n
      : Number.isSafeInteger(id) && id !== 0
}

/** What an id has to be, in words. */
export const sequenceIdShown =
  "a whole number that is not 0 (a bigint from 2^53 on), or a string that is not ''"

/**
 * Checks the sequence of one request; `undefined` for none.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkSequenceOptions(
  model: string,
  id: unknown,
  start: unknown,
  end: unknown,
): SequenceOptions | undefined {
  const wrong = (name: string, expected: string, received: unknown) =>
    invalidArgument(`options.${name}`, expected, received, { model })
  if (start !== undefined && typeof start !== 'boolean') throw wrong('sequenceStart', 'true or false', start)
  if (end !== undefined && typeof end !== 'boolean') throw wrong('sequenceEnd', 'true or false', end)
  if (id === undefined && start !== true && end !== true) return undefined
  if (!isSequenceId(id)) throw wrong('sequenceId', sequenceIdShown, id)
  return { id, start: start === true, end: end === true }
}
