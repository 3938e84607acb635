import { invalidArgument, type InferenceError } from '../errors.ts'
import { isPlainObject, ownProperties } from './plain-options.ts'

/** ONNX Runtime's options outside its session options proper, by their full names, such as `session.intra_op.allow_spinning`. */
export type SessionConfigEntries = Readonly<Record<string, string>>

/** Groups within groups: no option of ONNX Runtime has so many dots, and a cyclic object has no end. */
const deepest = 16

/**
 * Flattens `sessionOptions.extra`, or the like of another option, whose entries may be given in groups (`{ session: { intra_op: { allow_spinning: '0' } } }`),
 * by their full names (`{ 'session.intra_op.allow_spinning': '0' }`), or in part as one and in part as the other.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for a value that is no string, and for one entry given twice with two values.
 */
export function flattenExtra(
  model: string,
  extra: unknown,
  option = 'sessionOptions.extra',
): SessionConfigEntries {
  const entries: Record<string, string> = ownProperties({})
  const add = (prefix: string, group: unknown, depth: number): void => {
    const path = `${option}${prefix === '' ? '' : `.${prefix}`}`
    if (depth > deepest || !isPlainObject(group)) {
      throw wrong(
        model,
        path,
        depth > deepest ? `groups at most ${deepest} deep` : 'a plain object of options',
        group,
      )
    }
    for (const [key, value] of Object.entries(ownProperties(group))) {
      const name = prefix === '' ? key : `${prefix}.${key}`
      if (typeof value === 'object' && value !== null) add(name, value, depth + 1)
      else if (typeof value !== 'string')
        throw wrong(model, `${option}.${name}`, 'a string, as all values in extra', value)
      else if ((entries[name] ??= value) !== value) {
        throw wrong(model, `${option}.${name}`, `one value; it is also given as '${entries[name]}'`, value)
      }
    }
  }
  add('', extra, 0)
  return entries
}

function wrong(model: string, name: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
