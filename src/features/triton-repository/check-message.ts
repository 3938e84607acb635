import { configError, type ConfigSource } from './config-source.ts'
import {
  enumerations,
  fieldType,
  isEnumeration,
  isMessage,
  messages,
  oneofs,
  type FieldType,
  type MessageName,
} from './model-config-schema.ts'
import { nearest } from './nearest-name.ts'
import { shown, type TextField, type TextValue } from './text-format.ts'

/**
 * Checks a message against the schema, with all that is in it: that each field is known, of its type, given once unless it
 * is repeated, and alone where others exclude it.
 *
 * @param path of the message, with a dot at its end; '' for the whole.
 * @throws InferenceError `ERR_MODEL_CONFIG` with line and column.
 */
export function checkMessage(
  source: ConfigSource,
  message: MessageName,
  fields: readonly TextField[],
  path = '',
): void {
  const counts = new Map<string, number>()
  for (const { name, offset, list, values } of fields) {
    const type = fieldType(message, name)
    if (type === null) throw unknownField(source, offset, path, name, Object.keys(messages[message]), message)
    const count = counts.get(name)
    if (!type.repeated && count !== undefined)
      throw configError(source, offset, path + name, 'to be given once', 'it twice')
    if (!type.repeated && list) throw configError(source, offset, path + name, 'one value', 'a list')
    checkExclusion(source, message, name, counts, offset, path)
    for (const [index, value] of values.entries()) {
      const own =
        type.repeated && (type.key !== null || isMessage(type.value))
          ? `${path}${name}[${(count ?? 0) + index}]`
          : path + name
      if (type.key === null) checkValue(source, type.value, value, own)
      else checkEntry(source, type, value, own)
    }
    counts.set(name, (count ?? 0) + values.length)
  }
  for (const name of counts.keys())
    if (fieldType(message, name)!.key !== null) checkKeys(source, name, fields, path)
}

function unknownField(
  source: ConfigSource,
  offset: number,
  path: string,
  name: string,
  known: readonly string[],
  message: string,
): Error {
  const like = nearest(name, known)
  const hint = like === null ? undefined : `Did you mean ${like}?`
  return configError(source, offset, path + name, `a known field of ${message}`, name, hint)
}

function checkExclusion(
  source: ConfigSource,
  message: MessageName,
  name: string,
  given: ReadonlyMap<string, number>,
  offset: number,
  path: string,
): void {
  const group: readonly string[] = Object.hasOwn(oneofs, message)
    ? oneofs[message as keyof typeof oneofs]
    : []
  const other = group.includes(name) ? group.find((each) => each !== name && given.has(each)) : undefined
  if (other !== undefined)
    throw configError(source, offset, path + name, `one of ${group.join(', ')}`, [other, name])
}

/** One entry of a map: a message with a key and a value. */
function checkEntry(source: ConfigSource, { key, value }: FieldType, entry: TextValue, path: string): void {
  if (entry.kind !== 'message')
    throw wrong(source, path, entry, 'an entry in braces, { key: ... value: ... }')
  const given = new Set<string>()
  for (const { name, offset, list, values } of entry.value) {
    if (name !== 'key' && name !== 'value')
      throw unknownField(source, offset, `${path}.`, name, ['key', 'value'], 'a map entry')
    if (given.has(name)) throw configError(source, offset, `${path}.${name}`, 'to be given once', 'it twice')
    if (list) throw configError(source, offset, `${path}.${name}`, 'one value', 'a list')
    given.add(name)
    checkValue(source, name === 'key' ? key! : value, values[0]!, `${path}.${name}`)
  }
}

/** That no key of a map is there twice: of the two values one would be lost. */
function checkKeys(source: ConfigSource, name: string, fields: readonly TextField[], path: string): void {
  const keys = new Set<unknown>()
  const entries = fields.filter((field) => field.name === name).flatMap(({ values }) => values)
  for (const [index, { value, offset }] of entries.entries()) {
    const key = (value as readonly TextField[]).find((field) => field.name === 'key')?.values[0]?.value ?? ''
    if (keys.has(key)) throw configError(source, offset, `${path}${name}[${index}].key`, 'each key once', key)
    keys.add(key)
  }
}

const ranges: Readonly<Record<string, readonly [from: bigint, to: bigint, words: string]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n, 'a whole number of 32 bits'],
  uint32: [0n, 2n ** 32n - 1n, 'a whole number of at least 0 and at most 32 bits'],
  int64: [-(2n ** 63n), 2n ** 63n - 1n, 'a whole number of 64 bits'],
  uint64: [0n, 2n ** 64n - 1n, 'a whole number of at least 0 and at most 64 bits'],
}

function checkValue(source: ConfigSource, type: string, value: TextValue, path: string): void {
  if (isMessage(type)) {
    if (value.kind !== 'message') throw wrong(source, path, value, 'a message in braces')
    checkMessage(source, type, value.value, `${path}.`)
  } else if (isEnumeration(type)) {
    const names: readonly string[] = enumerations[type]
    const isKnown =
      value.kind === 'number'
        ? typeof value.value === 'bigint' && names[Number(value.value)] !== undefined
        : names.includes(value.value as string)
    if (!isKnown || value.kind === 'string')
      throw wrong(source, path, value, `one of ${names.join(', ')}`, nearestOf(value, names))
  } else if (type === 'string') {
    if (value.kind !== 'string') throw wrong(source, path, value, 'a string in quotes')
  } else if (type === 'bool') {
    if (booleanOf(value) === null) throw wrong(source, path, value, 'true or false')
  } else if (type === 'float' || type === 'double') {
    if (value.kind !== 'number') throw wrong(source, path, value, 'a number')
  } else {
    const [from, to, words] = ranges[type]!
    const isInRange =
      value.kind === 'number' && typeof value.value === 'bigint' && value.value >= from && value.value <= to
    const isFloat =
      value.kind === 'number' && typeof value.value === 'number' && Number.isInteger(value.value)
    if (!isInRange)
      throw wrong(
        source,
        path,
        value,
        words,
        isFloat ? 'Write it without a point and an exponent' : undefined,
      )
  }
}

/** What a value says as a boolean; `null` when it is none. */
export function booleanOf({ kind, value }: TextValue): boolean | null {
  if (kind === 'number') return value === 1n ? true : value === 0n ? false : null
  if (kind !== 'identifier') return null
  return /^(?:[tT]rue|t)$/.test(value) ? true : /^(?:[fF]alse|f)$/.test(value) ? false : null
}

function nearestOf({ kind, value }: TextValue, names: readonly string[]): string | undefined {
  if (kind === 'string' && names.includes(value)) return 'Write it without quotes'
  if (typeof value !== 'string') return undefined
  const like = names.find((name) => name.endsWith(`_${value.toUpperCase()}`)) ?? nearest(value, names)
  return like === null ? undefined : `Did you mean ${like}?`
}

function wrong(source: ConfigSource, path: string, value: TextValue, expected: string, hint?: string): Error {
  return configError(source, value.offset, path, expected, shown(value), hint)
}
