import protobuf from 'protobufjs/minimal.js' // its readers alone: its reader of schemas takes longer than small models do
import type { FileWindow } from './file-window.ts'

/** A range of the file. */
export interface Span {
  readonly start: number
  readonly end: number
}

/**
 * How to treat fields, by number: a callback receives the field's range in the file; `'last'` skips the rest
 * of the message.
 */
export type Parts = Readonly<Record<number, ((span: Span) => void) | 'last'>>

/** Deepest nesting, as in protobuf itself. */
const deepest = 100
/**
 * Most fields of a file. A graph of 100 000 operators has about 3 million; more than this limit take seconds.
 */
const mostFields = 10_000_000
/** Most bytes kept of one message, and of all together. */
const mostKeptOfOne = 2 ** 16
const mostKept = 2 ** 24
/** Most bytes of a protobuf number. */
const longestNumber = 10
/** The wire type with a length, the only one that can contain a message. */
const withLength = 2

/** The file is no protobuf message, or exceeds a limit. */
export class MalformedFile extends Error {}

/** Walks through a protobuf message in a file, and reads the fields of the schema. It never reads weights. */
export class WireReader {
  readonly #window: FileWindow
  #at = 0
  #fields = 0
  #kept = 0
  #depth = 0

  constructor(window: FileWindow) {
    this.#window = window
  }

  /**
   * Reads one message. Fields in `parts` go to their callbacks, fields of the schema are read, and all others
   * are skipped.
   *
   * @throws MalformedFile
   */
  read<Name extends keyof Messages>(name: Name, span: Span, parts: Parts = {}): Messages[Name] {
    if (++this.#depth > deepest) throw new MalformedFile(`messages are nested more than ${deepest} deep`)
    const kept: Span[] = []
    let keptBytes = 0
    for (let at = span.start; at < span.end;) {
      const { field, start, end, holds } = this.#field(at, span.end)
      const part = parts[field]
      if (part === 'last') break
      if (part !== undefined) {
        if (!holds)
          throw new MalformedFile(`field ${field} at byte ${at} is a number, where ${name} has none`)
        part({ start, end })
      } else if (keeps(name, field)) {
        keptBytes += end - at
        if (keptBytes > mostKeptOfOne)
          throw new MalformedFile(
            `the ${name} at byte ${span.start} says more than ${mostKeptOfOne} bytes of itself`,
          )
        kept.push({ start: at, end })
      }
      at = end
    }
    this.#depth--
    return this.#decoded(name, span, kept, keptBytes)
  }

  /** A text, cut to `mostBytes`. */
  text({ start, end }: Span, mostBytes: number): string {
    const length = Math.min(end - start, mostBytes)
    this.#keep(length)
    return this.#window.copy(start, start + length).toString()
  }

  #decoded<Name extends keyof Messages>(
    name: Name,
    span: Span,
    kept: readonly Span[],
    byteLength: number,
  ): Messages[Name] {
    this.#keep(byteLength)
    const bytes = Buffer.concat(kept.map(({ start, end }) => this.#window.copy(start, end)))
    try {
      return decode(name, bytes)
    } catch (error) {
      throw new MalformedFile(`the ${name} at byte ${span.start} cannot be read: ${(error as Error).message}`)
    }
  }

  #keep(byteLength: number): void {
    this.#kept += byteLength
    if (this.#kept > mostKept)
      throw new MalformedFile(`beside its weights it has more than ${mostKept} bytes to be read`)
  }

  /** The field at an offset: the range of its value, and whether that may contain a message. */
  #field(at: number, limit: number): Span & { readonly field: number; readonly holds: boolean } {
    if (++this.#fields > mostFields) throw new MalformedFile(`it has more than ${mostFields} fields`)
    this.#at = at
    const tag = this.#number(limit)
    const field = Math.floor(tag / 8)
    const kind = tag % 8
    if (field === 0 || tag > 0xffff_ffff) throw new MalformedFile(`byte ${at} begins no field`)
    const length = this.#lengthOf(kind, field, at, limit)
    const start = this.#at
    const end = start + length
    if (end > limit)
      throw new MalformedFile(
        `field ${field} at byte ${at} ends at byte ${end}, and what it is part of at byte ${limit}${this.#cutShort(limit)}`,
      )
    return { field, start, end, holds: kind === withLength }
  }

  /** Moves to the beginning of the value; for a number, to its end. */
  #lengthOf(kind: number, field: number, at: number, limit: number): number {
    switch (kind) {
      case 0: this.#number(limit); return 0 // prettier-ignore
      case 1:
        return 8
      case withLength:
        return this.#number(limit)
      case 5:
        return 4
      default:
        throw new MalformedFile(
          `field ${field} at byte ${at} is of kind ${kind}${kind === 6 || kind === 7 ? '' : ', a group'}, which ONNX models do not use`,
        )
    }
  }

  /** A number of up to 64 bits, 7 bits per byte; approximate above 2^53. */
  #number(limit: number): number {
    let value = 0
    for (let count = 0, scale = 1; count < longestNumber; count++, scale *= 128) {
      if (this.#at >= limit)
        throw new MalformedFile(
          `a number at byte ${this.#at - count} extends past byte ${limit}${this.#cutShort(limit)}`,
        )
      const byte = this.#window.byteAt(this.#at++)
      value += (byte & 0x7f) * scale
      // Readers disagree on such numbers, and ONNX Runtime may read another value than this one.
      if ((byte === 0 && count > 0) || (count === longestNumber - 1 && byte > 1 && byte < 0x80))
        throw new MalformedFile(
          `the number at byte ${this.#at - 1 - count} is not protobuf's encoding of a 64-bit number`,
        )
      if (byte < 0x80) return value
    }
    throw new MalformedFile(
      `a number at byte ${this.#at - longestNumber} has more than ${longestNumber} bytes`,
    )
  }

  #cutShort(limit: number): string {
    return limit === this.#window.byteLength ? ', where the file ends: it is cut short, or no ONNX model' : ''
  }
}

/** A field: its name, its type, and whether it is a list, or a member of a union, which has no default. */
type Field = readonly [
  name: string,
  type: 'int32' | 'int64' | 'string' | keyof typeof schema,
  form?: 'list' | 'member',
]

/**
 * The part of an ONNX model that is read: its messages, and their fields by number. Only these fields are kept.
 * {@link WireReader} walks through messages with weights, and their parents, instead.
 */
const schema = {
  ModelProto: {
    1: ['irVersion', 'int64'],
    2: ['producerName', 'string'],
    3: ['producerVersion', 'string'],
    4: ['domain', 'string'],
    5: ['modelVersion', 'int64'],
    8: ['opsetImport', 'OperatorSetIdProto', 'list'],
  },
  OperatorSetIdProto: { 1: ['domain', 'string'], 2: ['version', 'int64'] },
  GraphProto: { 2: ['name', 'string'] },
  NodeProto: { 4: ['opType', 'string'], 7: ['domain', 'string'] },
  FunctionProto: { 1: ['name', 'string'], 10: ['domain', 'string'] },
  TensorProto: {
    1: ['dims', 'int64', 'list'],
    2: ['dataType', 'int32'],
    8: ['name', 'string'],
    13: ['externalData', 'StringStringEntryProto', 'list'],
    14: ['dataLocation', 'int32'],
  },
  StringStringEntryProto: { 1: ['key', 'string'], 2: ['value', 'string'] },
  ValueInfoProto: { 1: ['name', 'string'], 2: ['type', 'TypeProto'] },
  TypeProto: {
    1: ['tensorType', 'TensorType', 'member'],
    4: ['sequenceType', 'ElementsType', 'member'],
    5: ['mapType', 'MapType', 'member'],
    7: ['opaqueType', 'Container', 'member'],
    8: ['sparseTensorType', 'TensorType', 'member'],
    9: ['optionalType', 'ElementsType', 'member'],
  },
  TensorType: { 1: ['elemType', 'int32'], 2: ['shape', 'TensorShapeProto'] },
  ElementsType: { 1: ['elemType', 'TypeProto'] },
  MapType: { 1: ['keyType', 'int32'], 2: ['valueType', 'TypeProto'] },
  TensorShapeProto: { 1: ['dim', 'Dimension', 'list'] },
  Dimension: { 1: ['dimValue', 'int64', 'member'], 2: ['dimParam', 'string', 'member'] },
  Container: {},
} as const satisfies Readonly<Record<string, Readonly<Record<number, readonly [string, string, string?]>>>>

const fieldsOf = (name: keyof typeof schema): Readonly<Record<number, Field>> => schema[name]

/** Messages of {@link schema} as they are read. */
export interface Messages {
  ModelProto: {
    readonly irVersion: number
    readonly producerName: string
    readonly producerVersion: string
    readonly domain: string
    readonly modelVersion: number
    readonly opsetImport: readonly { readonly domain: string; readonly version: number }[]
  }
  GraphProto: { readonly name: string }
  NodeProto: { readonly opType: string; readonly domain: string }
  FunctionProto: { readonly name: string; readonly domain: string }
  TensorProto: {
    readonly dims: readonly number[]
    readonly dataType: number
    readonly name: string
    readonly externalData: readonly { readonly key: string; readonly value: string }[]
    readonly dataLocation: number
  }
  ValueInfoProto: { readonly name: string; readonly type: TypeProto | null }
  /** A message of which only parts are read. */
  Container: object
}

/** The type of an input or output; at most one member is set. */
export interface TypeProto {
  readonly tensorType?: {
    readonly elemType: number
    readonly shape: { readonly dim: readonly Dimension[] } | null
  }
  readonly sequenceType?: { readonly elemType: TypeProto | null }
  readonly mapType?: { readonly keyType: number; readonly valueType: TypeProto | null }
  readonly opaqueType?: object
  readonly sparseTensorType?: object
  readonly optionalType?: { readonly elemType: TypeProto | null }
}

/** A dimension: fixed, named, or neither. */
export interface Dimension {
  readonly dimValue?: number
  readonly dimParam?: string
}

/** Whether a message keeps the field of that number. */
function keeps(name: keyof Messages, field: number): boolean {
  return fieldsOf(name)[field] !== undefined
}

/** Parses a message. Throws an Error if it is invalid. */
function decode<Name extends keyof Messages>(name: Name, bytes: Uint8Array): Messages[Name] {
  return message(name, protobuf.Reader.create(bytes), 0, emptyMessage(name)) as unknown as Messages[Name]
}

type Values = Record<string, unknown>

/** Missing fields have their default. */
function emptyMessage(name: keyof typeof schema): Values {
  const values: Values = {}
  for (const [key, type, form] of Object.values(fieldsOf(name))) {
    if (form === 'list') values[key] = []
    else if (form !== 'member') values[key] = type === 'string' ? '' : type in schema ? null : 0
  }
  return values
}

/** Reads up to the end into `values`, as protobuf does: the last number or text counts, and messages are merged. */
function message(name: keyof typeof schema, reader: protobuf.Reader, depth: number, values: Values): Values {
  if (depth > deepest) throw new Error('max depth exceeded')
  const fields = fieldsOf(name)
  while (reader.pos < reader.len) {
    const tag = reader.uint32()
    const wire = tag & 7
    const field = fields[tag >>> 3]
    if (field === undefined || !read(field, wire, reader, depth, values)) reader.skipType(wire)
  }
  return values
}

/** Whether the field has a value of its own type, which is added. */
function read(
  [key, type, form]: Field,
  wire: number,
  reader: protobuf.Reader,
  depth: number,
  values: Values,
): boolean {
  const isNumber = type === 'int32' || type === 'int64'
  const list = form === 'list' ? (values[key] as unknown[]) : null
  if (isNumber && list !== null && wire === withLength) {
    const packed = protobuf.Reader.create(reader.bytes())
    while (packed.pos < packed.len) list.push(Number(packed[type]()))
    return true
  }
  if (wire !== (isNumber ? 0 : withLength)) return false
  let value: unknown
  if (isNumber) value = Number(reader[type]())
  else if (type === 'string') value = reader.string()
  else {
    const before = list === null ? (values[key] as Values | null | undefined) : null
    value = message(type, protobuf.Reader.create(reader.bytes()), depth + 1, before ?? emptyMessage(type))
  }
  if (list === null) values[key] = value
  else list.push(value)
  return true
}
