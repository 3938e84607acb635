import * as v from 'valibot'
import { isPlainObject, ownProperties, typed } from './plain-options.ts'
import { invalidArgument, type InferenceError } from '../errors.ts'

const plainObject = {
  ...v.custom<Readonly<Record<string, unknown>>>(isPlainObject),
  expects: 'a plain object',
}

/** Schema of an object of any properties, in a copy that inherits nothing. */
export const properties = v.pipe(plainObject, v.transform(ownProperties))

/** Schema of what clients are told of a model by name. */
export const parametersSchema = v.pipe(properties, v.record(v.string(), v.string()))

/** Schema of an object with these entries and no others, whose output inherits nothing either. The message for another one names them. */
export function optionsOf<const Entries extends v.ObjectEntries>(entries: Entries) {
  const known = `one of ${Object.keys(entries).join(', ')}`
  const message = ({ expected, message }: v.StrictObjectIssue) => (expected === 'never' ? known : message)
  return v.pipe(properties, v.strictObject(ownProperties(entries), message), v.transform(ownProperties))
}

/** The innermost issue of a union: the one that talks about what the caller most likely meant. */
export function deepest(issue: v.BaseIssue<unknown>): v.BaseIssue<unknown> {
  const nested = issue.issues
    ?.map(deepest)
    .toSorted((a, b) => (b.path?.length ?? 0) - (a.path?.length ?? 0))[0]
  if (nested === undefined || nested.path === undefined) return issue
  return {
    ...nested,
    path: [...(issue.path ?? []), ...nested.path] as unknown as [v.IssuePathItem, ...v.IssuePathItem[]],
  }
}

/** Schema of a whole number. */
export const wholeNumber = (minimum: number, maximum = 2 ** 31 - 1) =>
  v.pipe(v.number(), v.integer('a whole number'), v.minValue(minimum), v.maxValue(maximum))

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
