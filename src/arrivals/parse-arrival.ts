import { invalidArgument, type InferenceError } from '../errors.ts'
import type { Arrival } from './arrival.ts'

type Fields = Readonly<Record<string, unknown>>

/** What a field may be; those of an {@link Arrival} that are not here are of no use to anybody, and left out. */
const optional: readonly [field: keyof Arrival, expected: string, is: (value: unknown) => boolean][] = [
  ['model', 'a name', (value) => typeof value === 'string' && value !== ''],
  ['dims', 'lists of whole numbers by the names of inputs', isDims],
  ['priority', 'a whole number of at least 0', isCount],
  ['timeoutMs', 'a number of at least 0', isAmount],
  ['deadlineMs', 'a number of at least 0', isAmount],
  ['sequenceId', 'a number or a string', (value) => typeof value === 'string' || isCount(value)],
  ['latencyUs', 'a number of at least 0', isAmount],
]

/**
 * Reads one line of a recording.
 *
 * @param where its file and number, for errors.
 * @param notBeforeUs the time of the line before.
 * @throws InferenceError `ERR_INVALID_ARG`
 */
export function parseArrival(line: string, where: string, notBeforeUs: number): Arrival {
  const fields = parsed(line, where)
  const { atUs, rows } = fields
  if (!isAmount(atUs)) throw wrong(where, 'atUs', 'a number of at least 0', atUs)
  if (atUs < notBeforeUs) throw wrong(where, 'atUs', `at least the ${notBeforeUs} of the line before`, atUs)
  if (!isCount(rows) || rows === 0) throw wrong(where, 'rows', 'a whole number of at least 1', rows)
  const arrival: Record<string, unknown> = { atUs, rows }
  for (const [field, expected, is] of optional) {
    const value = fields[field]
    if (value === undefined) continue
    if (!is(value)) throw wrong(where, field, expected, value)
    arrival[field] = value
  }
  return arrival as unknown as Arrival
}

function parsed(line: string, where: string): Fields {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw invalidArgument(where, 'a request in JSON', line, { hint: 'Each line is one, as { "atUs": 1500, "rows": 1 }' })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalidArgument(where, 'a request in JSON', line)
  return value as Fields
}

function wrong(where: string, field: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(`${where}: ${field}`, expected, received)
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isDims(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((dims) => Array.isArray(dims) && dims.every(isCount))
}
