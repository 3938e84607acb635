import * as v from 'valibot'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { deepest } from './options-schema.ts'
import { typed } from './plain-options.ts'

/**
 * What the caller gave as a configuration, checked against its schema.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` with the option's path, what was expected and what was received.
 */
export function checkConfig<Schema extends v.GenericSchema>(
  schema: Schema,
  model: string,
  config: unknown,
): v.InferOutput<Schema> {
  let result
  try {
    result = v.safeParse(schema, config, { abortEarly: true })
  } catch (error) {
    throw typed('config', error, { model })
  }
  if (result.success) return result.output
  throw configError(model, config, deepest(result.issues[0]))
}

function configError(model: string, config: unknown, issue: v.BaseIssue<unknown>): InferenceError {
  const name = (issue.path ?? []).reduce(
    (path, { key }) =>
      typeof key === 'number' ? `${path}[${key}]` : path === '' ? String(key) : `${path}.${String(key)}`,
    '',
  )
  const unknownKey = issue.type === 'strict_object' && issue.expected === 'never'
  const received = unknownKey ? issue.path?.at(-1)?.key : issue.input
  const missing = issue.type === 'strict_object' && issue.received === 'undefined' && name !== ''
  const isOwn = !issue.message.startsWith('Invalid ') // said in the schema, and not by the library
  const expected = isOwn ? issue.message : missing ? 'to be given' : (issue.expected ?? issue.message)
  if (name === '')
    return invalidArgument('config', 'a plain object', config, { code: 'ERR_MODEL_CONFIG', model })
  return invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
