import { InferenceError, type InferenceErrorCode, type InferenceErrorDetails } from '../../errors.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import { messageOf } from '../../base/message-of.ts'
import { toText } from './tagged-json.ts'

/** What of an error is told to another process, in the order of {@link InferenceErrorDetails}. */
const fields = [
  'model',
  'argument',
  'expected',
  'received',
  'retryAfterMs',
  'estimatedMs',
  'requestId',
  'step',
] as const
const mostCauses = 8

/** An error as text. */
export function errorText(error: unknown): string {
  return toText(plain(error, 0))
}

/** The same error in another process: an `InferenceError` with all its fields, anything else an `Error` with its name and code. */
export function errorFrom(value: unknown): Error {
  if (!isPlainObject(value)) return new Error(String(value))
  const { code, message, name, cause } = value
  const causes = cause === undefined ? {} : { cause: errorFrom(cause) }
  const text = typeof message === 'string' ? message : ''
  if (name !== 'InferenceError')
    return Object.assign(
      new Error(text, causes),
      typeof name === 'string' ? { name } : {},
      code === undefined ? {} : { code },
    )
  const details: Record<string, unknown> = { ...causes }
  for (const field of fields) {
    if (value[field] !== undefined) details[field === 'argument' ? 'name' : field] = value[field]
  }
  return new InferenceError(code as InferenceErrorCode, text, details as InferenceErrorDetails)
}

function plain(error: unknown, depth: number): unknown {
  if (!(error instanceof Error)) return { name: 'Error', message: messageOf(error) }
  const of = error as Error & Record<string, unknown>
  const told: Record<string, unknown> = {
    name: error.name,
    message: error instanceof InferenceError ? error.message : messageOf(error),
  }
  if (typeof of['code'] === 'string') told['code'] = of['code']
  if (error instanceof InferenceError) for (const field of fields) told[field] = of[field]
  if (error.cause !== undefined && depth < mostCauses) told['cause'] = plain(error.cause, depth + 1)
  return told
}
