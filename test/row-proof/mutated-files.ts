import type { Random } from '../models/random.ts'

/** Messages of ONNX's schema by the number of the field that holds them; of other fields it is only guessed what they are. */
const schema = {
  model: { 7: 'graph', 8: 'opset', 25: 'function' },
  opset: {},
  graph: { 1: 'node', 5: 'tensor', 11: 'value', 12: 'value', 13: 'value', 15: 'sparseTensor' },
  function: { 7: 'node', 9: 'opset', 11: 'attribute' },
  node: { 5: 'attribute' },
  attribute: { 5: 'tensor', 6: 'graph', 22: 'sparseTensor' },
  value: { 2: 'type' },
  type: { 1: 'tensorType' },
  tensorType: { 2: 'shape' },
  shape: { 1: 'dim' },
  dim: {},
  tensor: {},
  sparseTensor: { 1: 'tensor', 2: 'tensor' },
} as const satisfies Record<string, Readonly<Record<number, string>>>
type MessageName = keyof typeof schema

/** Numbers of all fields that ONNX Runtime knows of a message, and one that it does not. */
const known: Readonly<Record<MessageName, readonly number[]>> = {
  model: [1, 7, 8, 14, 25, 99],
  opset: [1, 2, 99],
  graph: [1, 2, 5, 11, 12, 13, 15, 99],
  function: [1, 4, 5, 6, 7, 9, 10, 11, 13, 99],
  node: [1, 2, 3, 4, 5, 7, 8, 99],
  attribute: [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 99],
  value: [1, 2, 99],
  type: [1, 4, 8, 99],
  tensorType: [1, 2, 99],
  shape: [1, 99],
  dim: [1, 2, 99],
  tensor: [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 14, 99],
  sparseTensor: [1, 2, 3, 99],
}

/** A field as it stands in the file, or is to stand there. */
interface Field {
  number: number
  wire: number
  /** Its bytes: of a number, or what it holds. */
  content: Buffer | Message
  /** What its tag is more than its number and wire type, and how many bytes its numbers are longer than they have to be. */
  more: bigint
  padding: number
}

interface Message {
  readonly name: MessageName
  fields: Field[]
}

/** The file with one to three changes that a hostile writer of protobuf might make: mostly it can be read still. */
export function mutated(file: Uint8Array, random: Random): Uint8Array {
  const model = parsed(Buffer.from(file), 'model')
  const messages = all(model)
  // What decides is mostly in these.
  const deciding = messages.filter(({ name }) => name === 'attribute' || name === 'tensor' || name === 'node')
  for (let left = 1 + Math.floor(random() * 3); left > 0; left--)
    change(one(random() < 0.5 && deciding.length > 0 ? deciding : messages, random), messages, random)
  const bytes = written(model)
  if (random() < 0.03) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
  return random() < 0.01 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes
}

const one = <T>(list: readonly T[], random: Random): T => list[Math.floor(random() * list.length)]!
const all = (message: Message): Message[] => [
  message,
  ...message.fields.flatMap(({ content }) => (Buffer.isBuffer(content) ? [] : all(content))),
]
const copyOf = (field: Field): Field => ({
  ...field,
  content: Buffer.isBuffer(field.content)
    ? field.content
    : { ...field.content, fields: field.content.fields.map(copyOf) },
})

const numbers = [
  0n,
  1n,
  2n,
  3n,
  4n,
  5n,
  6n,
  7n,
  9n,
  11n,
  13n,
  -1n,
  -2n,
  127n,
  255n,
  256n,
  2n ** 31n,
  2n ** 32n,
  2n ** 32n + 1n,
  2n ** 53n + 1n,
  2n ** 63n,
]
const texts = [
  '',
  '0',
  'axis',
  'value',
  'ai.onnx',
  'com.microsoft',
  'local',
  'Relu',
  'Identity',
  'Softmax',
  'Constant',
  't\0',
]

function change(message: Message, messages: readonly Message[], random: Random): void {
  const { fields } = message
  const at = Math.floor(random() * (fields.length + 1))
  const field = fields[Math.min(at, fields.length - 1)]
  if (field === undefined) {
    fields.push({
      number: one(known[message.name], random),
      wire: 0,
      content: varint(one(numbers, random)),
      more: 0n,
      padding: 0,
    })
    return
  }
  const changes: (() => void)[] = [
    () => fields.splice(at, 0, copyOf(field)),
    () => {
      fields.splice(at, 0, copyOf(field))
      alter(random() < 0.5 ? field : fields[at]!, messages, random)
    },
    () => {
      const second = copyOf(field)
      alter(second, messages, random)
      Object.assign(
        second,
        one([{}, { wire: one([0, 1, 2, 3, 5], random) }, { more: 2n ** 32n }, { padding: 1 }], random),
      )
      fields.splice(at, 0, second)
    },
    () => alter(field, messages, random),
    () => fields.splice(fields.indexOf(field), 1),
    () => fields.sort(() => random() - 0.5),
    () => {
      // Some of another message of the same kind: names, attributes, elements.
      const others = messages.filter(({ name, fields: own }) => name === message.name && own.length > 0)
      fields.splice(at, 0, copyOf(one(one(others, random).fields, random)))
    },
    () => {
      field.number = one(known[message.name], random)
    },
    () => {
      field.wire = one([0, 1, 2, 3, 4, 5], random)
    },
    () => {
      field.more = one([2n ** 32n, 2n ** 33n, 2n ** 35n, 2n ** 60n], random)
    },
    () => {
      field.padding = 1 + Math.floor(random() * 9)
    },
    () => {
      // A message in two parts, which protobuf merges.
      if (Buffer.isBuffer(field.content)) return
      const half = Math.floor(random() * (field.content.fields.length + 1))
      const rest: Field = {
        ...field,
        content: { ...field.content, fields: field.content.fields.slice(half) },
      }
      field.content = { ...field.content, fields: field.content.fields.slice(0, half) }
      fields.splice(fields.indexOf(field) + 1, 0, rest)
    },
    () => {
      // Several numbers that are packed, or one of them.
      if (field.wire === 0 && Buffer.isBuffer(field.content))
        Object.assign(field, {
          wire: 2,
          content: Buffer.concat([field.content, varint(one(numbers, random))]),
        })
      else if (field.wire === 2 && Buffer.isBuffer(field.content) && field.content.length > 0)
        Object.assign(field, { wire: 0, content: varint(BigInt(field.content[0]!)) })
    },
  ]
  one(changes, random)()
}

function alter(field: Field, messages: readonly Message[], random: Random): void {
  if (!Buffer.isBuffer(field.content)) {
    const { name } = field.content
    field.content = copyOf({
      ...field,
      content:
        one(
          messages.filter((each) => each.name === name),
          random,
        ) ?? field.content,
    }).content
    return
  }
  if (field.wire === 0) field.content = varint(one(numbers, random))
  else if (field.wire !== 2)
    field.content.forEach((_, index, bytes) => (bytes[index] = one([0, 1, 63, 128, 255], random)))
  else {
    const held = messages
      .flatMap(({ fields }) => fields)
      .flatMap(({ wire, content }) => (wire === 2 && Buffer.isBuffer(content) ? [content] : []))
    const kinds = [
      () => one(held, random),
      () => Buffer.from(one(texts, random)),
      () => Buffer.concat([field.content as Buffer, Buffer.from([one([0, 1, 0xfe, 0xff], random)])]),
      () => (field.content as Buffer).subarray(1),
    ]
    field.content = one(kinds, random)()
  }
}

function varint(value: bigint, padding = 0): Buffer {
  const digits: number[] = []
  let rest = BigInt.asUintN(64, value)
  do {
    digits.push(Number(rest & 127n) + 128)
    rest >>= 7n
  } while (rest > 0n)
  for (let left = padding; left > 0; left--) digits.push(128)
  digits.push(digits.pop()! - 128)
  return Buffer.from(digits)
}

function parsed(bytes: Buffer, name: MessageName): Message {
  const fields: Field[] = []
  let at = 0
  const next = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!
      value += BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = Number(next())
    const [number, wire] = [Math.floor(tag / 8), tag % 8]
    const start = at
    const length = wire === 0 ? (next(), at - start) : wire === 2 ? Number(next()) : wire === 1 ? 8 : 4
    const from = wire === 0 ? start : at
    at = from + length
    const content = Buffer.from(bytes.subarray(from, at))
    const inner: MessageName | undefined = (schema[name] as Readonly<Record<number, MessageName>>)[number]
    fields.push({
      number,
      wire,
      content: inner !== undefined && wire === 2 ? parsed(content, inner) : content,
      more: 0n,
      padding: 0,
    })
  }
  return { name, fields }
}

function written({ fields }: Message): Buffer {
  return Buffer.concat(
    fields.flatMap(({ number, wire, content, more, padding }) => {
      const bytes = Buffer.isBuffer(content) ? content : written(content)
      const tag = varint(BigInt(number * 8 + wire) + more, padding)
      if (wire === 2) return [tag, varint(BigInt(bytes.length), padding), bytes]
      if (wire === 3) return [tag, bytes, varint(BigInt(number * 8 + 4))]
      // Another wire type than before has as many bytes as it should have.
      if (wire === 1 || wire === 5)
        return [tag, Buffer.concat([bytes, Buffer.alloc(8)]).subarray(0, wire === 1 ? 8 : 4)]
      if (
        wire === 0 &&
        (bytes.length === 0 || bytes.at(-1)! > 127 || bytes.subarray(0, -1).some((byte) => byte < 128))
      )
        return [tag, varint(BigInt(bytes[0] ?? 0))]
      return [tag, bytes]
    }),
  )
}
