import * as v from 'valibot'
import { isPlainObject, ownProperties } from './plain-options.ts'

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
