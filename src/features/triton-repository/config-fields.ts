import type { InferenceError } from '../../errors.ts'
import {
  booleanOf,
  type EnumerationName,
  enumerations,
  fieldType,
  type MessageName,
} from './model-config-schema.ts'
import {
  configError,
  type ConfigSource,
  position,
  shown,
  type TextField,
  type TextValue,
} from './text-format.ts'

/** How to treat fields that were not read. */
interface FieldRules {
  /** Fields without effect here, and why. */
  readonly noted?: Readonly<Record<string, string>>
  /** Fields that ask for something unsupported, and what to do about it. */
  readonly refused?: Readonly<Record<string, string>>
}

/**
 * The fields of one message that was checked against the schema. Fields are read by name; {@link finish}
 * treats those that were not read.
 */
export class ConfigFields {
  /** Path of the message, with a dot at its end; '' for the whole file. */
  readonly path: string
  readonly #source: ConfigSource
  readonly #offset: number
  readonly #message: MessageName
  /** By name, in the order of the file. */
  readonly #fields = new Map<string, TextField[]>()
  /** Shared by all messages of a file. */
  readonly #notes: string[]
  readonly #read = new Set<string>()

  constructor(
    source: ConfigSource,
    message: MessageName,
    fields: readonly TextField[],
    notes: string[],
    path = '',
    offset = 0,
  ) {
    this.#source = source
    this.#offset = offset
    this.#message = message
    for (const field of fields) {
      const { name } = field
      const sameName = this.#fields.get(name)
      if (sameName === undefined) this.#fields.set(name, [field])
      else sameName.push(field)
    }
    this.#notes = notes
    this.path = path
  }

  string(name: string): string | undefined {
    return this.#one(name)?.value as string | undefined
  }

  strings(name: string): string[] {
    return this.#all(name).map(({ value }) => value as string)
  }

  boolean(name: string): boolean | undefined {
    const value = this.#one(name)
    return value === undefined ? undefined : booleanOf(value)!
  }

  booleans(name: string): boolean[] {
    return this.#all(name).map((value) => booleanOf(value)!)
  }

  /** An integer, rounded to the nearest JavaScript number. */
  integer(name: string, minimum = -Infinity, maximum = Infinity): number | undefined {
    const value = this.#one(name)
    return value === undefined ? undefined : this.#integer(name, value, minimum, maximum)
  }

  integers(name: string, minimum = -Infinity): number[] {
    return this.#all(name).map((value) => this.#integer(name, value, minimum))
  }

  /** Integers of any size, exact. */
  bigIntegers(name: string): bigint[] {
    return this.#all(name).map(({ value }) => value as bigint)
  }

  numbers(name: string): number[] {
    return this.#all(name).map(({ value }) => Number(value))
  }

  /** The name of an enumerator, which may be written as name or number. */
  enumerator<Name extends string>(name: string): Name | undefined {
    const value = this.#one(name)
    if (value === undefined) return undefined
    const names = enumerations[fieldType(this.#message, name)!.value as EnumerationName]
    return (value.kind === 'number' ? names[Number(value.value)] : value.value) as Name
  }

  message(name: string): ConfigFields | undefined {
    const value = this.#one(name)
    return value === undefined ? undefined : this.#nested(name, name, value)
  }

  messages(name: string): ConfigFields[] {
    return this.#all(name).map((value, index) => this.#nested(name, `${name}[${index}]`, value))
  }

  /** A map of strings. */
  stringMap(name: string): Map<string, string> {
    return new Map(
      this.#entries(name).map(([key, value]) => [String(key?.value ?? ''), String(value?.value ?? '')]),
    )
  }

  /** A map from numbers or strings to messages. A missing key is 0 or '', as in protobuf. */
  messageMap<Key extends number | string>(name: string): [key: Key, value: ConfigFields][] {
    const isNumber = fieldType(this.#message, name)!.key !== 'string'
    return this.#entries(name).map(([key, value], index) => {
      const fields = { kind: 'message', value: [], offset: this.offsetOf(name), ...value } as TextValue
      const read = isNumber ? Number(key?.value ?? 0) : ((key?.value as string) ?? '')
      return [read as Key, this.#nested(name, `${name}[${index}].value`, fields)]
    })
  }

  /** Whether the field is set. An empty list is not. */
  has(name: string): boolean {
    return this.#fields.get(name)?.some(({ values }) => values.length > 0) ?? false
  }

  note(name: string, text: string): void {
    this.#notes.push(
      `${this.path}${name} (line ${position(this.#source, this.offsetOf(name)).line}): ${text}`,
    )
  }

  /** The error for a field's value. */
  error(name: string, expected: string, received: unknown, hint?: string): InferenceError {
    return configError(this.#source, this.offsetOf(name), this.path + name, expected, received, hint)
  }

  /** Throws {@link error}. */
  fail(name: string, expected: string, received: unknown, hint?: string): never {
    throw this.error(name, expected, received, hint)
  }

  /**
   * Treats every field that was not read: notes it, or refuses it. A field without a rule is refused as well,
   * so that none is silently ignored.
   */
  finish({ noted = {}, refused = {} }: FieldRules = {}): void {
    for (const [name, fields] of this.#fields) {
      if (this.#read.has(name)) continue
      if (Object.hasOwn(noted, name)) {
        this.note(name, noted[name]!)
        continue
      }
      const set = fields.find(({ values }) => !values.every(isUnset))
      if (set === undefined) continue
      const hint = Object.hasOwn(refused, name) ? refused[name] : undefined
      throw configError(
        this.#source,
        set.offset,
        this.path + name,
        'to be omitted, as it is not supported',
        shown(set.values[0]!),
        hint,
      )
    }
  }

  /** Offset of the field; offset of its message if the field is not set. */
  offsetOf(name: string): number {
    return this.#fields.get(name)?.[0]!.offset ?? this.#offset
  }

  #entries(name: string): [key: TextValue | undefined, value: TextValue | undefined][] {
    return this.#all(name).map(({ value }) => {
      const of = (part: string) =>
        (value as readonly TextField[]).find((field) => field.name === part)?.values[0]
      return [of('key'), of('value')]
    })
  }

  #all(name: string): TextValue[] {
    this.#read.add(name)
    return (this.#fields.get(name) ?? []).flatMap(({ values }) => values)
  }

  #one(name: string): TextValue | undefined {
    return this.#all(name)[0]
  }

  #integer(name: string, value: TextValue, minimum: number, maximum = Infinity): number {
    const integer = Number(value.value)
    if (integer >= minimum && integer <= maximum) return integer
    const expected = integer < minimum ? `at least ${minimum}` : `at most ${maximum}`
    throw configError(
      this.#source,
      value.offset,
      this.path + name,
      `a whole number of ${expected}`,
      shown(value),
    )
  }

  #nested(name: string, path: string, { value, offset }: TextValue): ConfigFields {
    const message = fieldType(this.#message, name)!.value as MessageName
    return new ConfigFields(
      this.#source,
      message,
      value as readonly TextField[],
      this.#notes,
      `${this.path}${path}.`,
      offset,
    )
  }
}

/** Whether a value equals leaving the field out. */
function isUnset(value: TextValue): boolean {
  if (value.kind === 'message') return false
  return value.value === '' || value.value === 0n || value.value === 0 || booleanOf(value) === false
}
