import type { AttributeProto, GraphProto, TensorProto } from './proto.ts'

// `AttributeProto.AttributeType`
const FLOAT = 1
const INT = 2
const STRING = 3
const TENSOR = 4
const GRAPH = 5
const FLOATS = 6
const INTS = 7
const STRINGS = 8

class FloatValue {
  readonly values: number | readonly number[]
  constructor(values: number | readonly number[]) {
    this.values = values
  }
}

/** The value of a node attribute; whole numbers are written as integers unless they are wrapped by {@link float}. */
export type AttributeValue =
  | number
  | string
  | readonly number[]
  | readonly string[]
  | FloatValue
  | TensorProto
  | GraphProto

/** Marks an attribute as float, for values that happen to be whole. */
export const float = (values: number | readonly number[]): FloatValue => new FloatValue(values)

/** The attribute message of a value. */
export function attribute(name: string, value: AttributeValue): AttributeProto {
  if (value instanceof FloatValue) return floats(name, value.values)
  if (typeof value === 'number')
    return Number.isInteger(value) ? { name, type: INT, i: value } : floats(name, value)
  if (typeof value === 'string') return { name, type: STRING, s: Buffer.from(value) }
  if ('node' in value) return { name, type: GRAPH, g: value }
  if ('dataType' in value) return { name, type: TENSOR, t: value }
  if (isStrings(value)) return { name, type: STRINGS, strings: value.map((text) => Buffer.from(text)) }
  return value.every(Number.isInteger) ? { name, type: INTS, ints: [...value] } : floats(name, value)
}

function floats(name: string, values: number | readonly number[]): AttributeProto {
  return typeof values === 'number'
    ? { name, type: FLOAT, f: values }
    : { name, type: FLOATS, floats: [...values] }
}

function isStrings(value: readonly number[] | readonly string[]): value is readonly string[] {
  return typeof value[0] === 'string'
}
