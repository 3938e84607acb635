import { configError, position, type ConfigSource } from './config-source.ts'
import type { TextField, TextValue } from './text-format.ts'

/** What becomes of fields that nobody read. */
export interface FieldRules {
  /** Fields that change nothing here, and why. */
  readonly noted?: Readonly<Record<string, string>>
  /** Fields that ask for something this library does not do, and what to do about it. */
  readonly refused?: Readonly<Record<string, string>>
}

/** The fields of one message, read by name and type; each read is remembered, so that {@link finish} sees the rest. */
export class ConfigFields {
  readonly #source: ConfigSource
  /** By name, in the order of the file. */
  readonly #fields = new Map<string, TextField[]>()
  readonly #path: string
  /** Shared by all messages of a file. */
  readonly #notes: string[]
  readonly #read = new Set<string>()

  constructor(source: ConfigSource, fields: readonly TextField[], notes: string[], path = '') {
    this.#source = source
    for (const field of fields) {
      const { name } = field
      const sameName = this.#fields.get(name)
      if (sameName === undefined) this.#fields.set(name, [field])
      else sameName.push(field)
    }
    this.#notes = notes
    this.#path = path
  }

  string(name: string): string | undefined {
    const value = this.#one(name)
    return value === undefined ? undefined : this.#string(name, value)
  }

  boolean(name: string): boolean | undefined {
    const value = this.#one(name)
    if (value === undefined) return undefined
    const written = String(value.kind === 'message' ? '{}' : value.value)
    if (value.kind !== 'string' && /^(?:[tT]rue|t|1)$/.test(written)) return true
    if (value.kind !== 'string' && /^(?:[fF]alse|f|0)$/.test(written)) return false
    throw this.#wrong(name, value, 'true or false')
  }

  /** Within what a JavaScript number holds exactly. */
  integer(name: string, minimum: number): number | undefined {
    const value = this.#one(name)
    return value === undefined ? undefined : this.#integer(name, value, minimum)
  }

  /** A number of 64 bits, as near as a JavaScript number comes to it. */
  unsigned64(name: string): number | undefined {
    const value = this.#one(name)
    if (value === undefined) return undefined
    if (value.kind === 'number' && typeof value.value === 'bigint' && value.value >= 0n && value.value < 2n ** 64n) return Number(value.value)
    throw this.#wrong(name, value, 'a whole number of at most 64 bits')
  }

  integers(name: string, minimum: number): number[] {
    return this.#all(name).map((value) => this.#integer(name, value, minimum))
  }

  /** Integers of any size, as written in decimal. */
  bigIntegers(name: string): bigint[] {
    return this.#all(name).map((value) => {
      if (value.kind === 'number' && typeof value.value === 'bigint') return value.value
      throw this.#wrong(name, value, 'a whole number')
    })
  }

  /** An enumerator, written as its name or its number; `names` are in the order of their numbers. */
  enumerator<Name extends string>(name: string, names: readonly Name[]): Name | undefined {
    const value = this.#one(name)
    if (value === undefined) return undefined
    const found = value.kind === 'number' ? names[Number(value.value)] : names.find((each) => each === value.value)
    if (found === undefined || value.kind === 'string') throw this.#wrong(name, value, `one of ${names.join(', ')}`)
    return found
  }

  message(name: string): ConfigFields | undefined {
    const value = this.#one(name)
    return value === undefined ? undefined : this.#message(name, value)
  }

  messages(name: string): ConfigFields[] {
    return this.#all(name).map((value, index) => this.#message(`${name}[${index}]`, value))
  }

  /** The keys of a map from text. */
  keys(name: string): string[] {
    return this.messages(name).map((entry) => entry.string('key') ?? '')
  }

  /** A map from numbers to messages; an entry without a key has the key 0, as in protobuf. */
  messageMap(name: string): [key: number, value: ConfigFields | undefined][] {
    return this.messages(name).map((entry) => [entry.unsigned64('key') ?? 0, entry.message('value')])
  }

  has(name: string): boolean {
    return this.#fields.has(name)
  }

  note(name: string, text: string): void {
    this.#notes.push(`${this.#path}${name} (line ${position(this.#source, this.#offsetOf(name)).line}): ${text}`)
  }

  /** Refuses the value of a field. */
  fail(name: string, expected: string, received: unknown, hint?: string): never {
    throw configError(this.#source, this.#offsetOf(name), this.#path + name, expected, received, hint)
  }

  /** Takes care of every field not read so far: notes it, or refuses it as unsupported or unknown. */
  finish({ noted = {}, refused = {} }: FieldRules = {}): void {
    for (const [name, fields] of this.#fields) {
      if (this.#read.has(name)) continue
      const { offset } = fields[0]!
      if (Object.hasOwn(noted, name)) {
        this.note(name, noted[name]!)
      } else if (Object.hasOwn(refused, name)) {
        const set = fields.find(({ values }) => !values.every(isUnset))
        if (set === undefined) continue
        const expected = 'to be left out, as it is not supported'
        throw configError(this.#source, set.offset, this.#path + name, expected, shown(set.values[0]!), refused[name])
      } else throw configError(this.#source, offset, this.#path + name, 'a known field', name)
    }
  }

  #offsetOf(name: string): number {
    return this.#fields.get(name)?.[0]!.offset ?? 0
  }

  #all(name: string): TextValue[] {
    this.#read.add(name)
    return (this.#fields.get(name) ?? []).flatMap(({ values }) => values)
  }

  #one(name: string): TextValue | undefined {
    this.#read.add(name)
    const [first, second] = this.#fields.get(name) ?? []
    const path = this.#path + name
    if (second !== undefined) throw configError(this.#source, second.offset, path, 'to be given once', 'it twice')
    if (first?.list === true) throw configError(this.#source, first.offset, path, 'one value', 'a list')
    return first?.values[0]
  }

  #string(name: string, value: TextValue): string {
    if (value.kind === 'string') return value.value
    throw this.#wrong(name, value, 'a string in quotes')
  }

  #integer(name: string, value: TextValue, minimum: number): number {
    const integer = value.kind === 'number' && typeof value.value === 'bigint' ? Number(value.value) : Number.NaN
    if (Number.isSafeInteger(integer) && integer >= minimum) return integer
    throw this.#wrong(name, value, `a whole number of at least ${minimum}`)
  }

  #message(path: string, value: TextValue): ConfigFields {
    if (value.kind !== 'message') throw this.#wrong(path, value, 'a message in braces')
    return new ConfigFields(this.#source, value.value, this.#notes, `${this.#path}${path}.`)
  }

  #wrong(name: string, value: TextValue, expected: string): Error {
    return configError(this.#source, value.offset, this.#path + name, expected, shown(value))
  }
}

/** Whether a value means the same as leaving the field out. */
function isUnset({ kind, value }: TextValue): boolean {
  if (kind === 'message') return false
  return value === '' || value === 0n || value === 0 || (kind === 'identifier' && /^(?:[fF]alse|f)$/.test(value))
}

function shown({ kind, value }: TextValue): unknown {
  if (kind === 'message') return '{ ... }'
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value
}
