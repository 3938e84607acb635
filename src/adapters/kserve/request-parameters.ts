import type { InferOptions } from '../../options/infer-options.ts'
import { invalidArgument } from '../../errors.ts'
import { countIn, fieldOf, flagIn, type Fields } from './json-fields.ts'

const where = 'parameters.'

/**
 * The options that a request's parameters stand for, as Triton has them: `priority`, `timeout` (in microseconds), `sequence_id`,
 * `sequence_start`, `sequence_end`. Others are parameters of a backend's own, and change nothing.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function readParameters(parameters: Fields, maxNameLength: number): InferOptions {
  for (const name of Object.keys(parameters)) {
    if (name.startsWith('triton_'))
      throw invalidArgument(
        where + name.slice(0, maxNameLength),
        "a name that does not begin with 'triton_', as those that Triton has for itself do",
        name,
      )
    const value = parameters[name]
    if (typeof value === 'object' && value !== null)
      throw invalidArgument(where + name.slice(0, maxNameLength), 'a string, a number, true or false', value)
  }
  const timeoutUs = countIn(parameters, 'timeout', where)
  const priority = countIn(parameters, 'priority', where)
  const id = sequenceId(fieldOf(parameters, 'sequence_id'), maxNameLength)
  const start = flagIn(parameters, 'sequence_start', where)
  const end = flagIn(parameters, 'sequence_end', where)
  return {
    ...(timeoutUs ? { timeoutMs: timeoutUs / 1000 } : {}),
    ...(priority === undefined ? {} : { priority }),
    ...(id === undefined ? {} : { sequenceId: id }),
    ...(start === true ? { sequenceStart: true } : {}),
    ...(end === true ? { sequenceEnd: true } : {}),
  }
}

/** `undefined` for none, which 0 and '' mean as well. */
function sequenceId(value: unknown, maxNameLength: number): string | number | undefined {
  if (value === undefined || value === 0 || value === '') return undefined
  if (typeof value === 'string' && value.length <= maxNameLength) return value
  // Two that are larger could be one to JSON.parse().
  if (Number.isSafeInteger(value) && (value as number) > 0) return value as number
  throw invalidArgument(
    'parameters.sequence_id',
    `a whole number, 0 or more and less than 2^53, or a string of ${maxNameLength} characters at most`,
    value,
  )
}
