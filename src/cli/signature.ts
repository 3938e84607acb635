import type { ElementType, ValueMetadata } from '../index.ts'
import { bindingCarrier, notStackable, shownShape } from '../tensor/metadata.ts'
import { isElementType, isRawType } from '../tensor/tensor.ts'
import { valueTypeOf, type ValueType } from '../tensor/values.ts'
import { escaped, oneLine } from './command-line.ts'

/** What callers may give instead of a tensor, by element type. */
const bareData: Readonly<Record<ElementType, string>> = {
  float32: 'Float32Array',
  float64: 'Float64Array',
  float16: 'Uint16Array',
  int8: 'Int8Array',
  uint8: 'Uint8Array',
  int16: 'Int16Array',
  uint16: 'Uint16Array',
  int32: 'Int32Array',
  uint32: 'Uint32Array',
  int64: 'BigInt64Array',
  uint64: 'BigUint64Array',
  bool: 'Uint8Array',
  string: 'string | readonly string[]',
  bfloat16: 'Uint16Array',
  float8e4m3fn: 'Uint8Array',
  float8e4m3fnuz: 'Uint8Array',
  float8e5m2: 'Uint8Array',
  float8e5m2fnuz: 'Uint8Array',
  int4: 'Uint8Array',
  uint4: 'Uint8Array',
}

/** Names used in an interface's text, which therefore no interface may have. */
export const namesInUse: readonly string[] = [
  'ModelSignature',
  'RawTensor',
  'TypedTensor',
  'Record',
  'Map',
  ...new Set(Object.values(bareData)),
]

/** An input or output of requests. */
export interface SignatureValue extends ValueMetadata {
  /** Whether a request may omit it, or an answer may lack it. */
  readonly optional?: boolean
  /** Whether it also accepts an encoded image. */
  readonly image?: boolean
}

/** A model for which an interface is written. */
export interface SignatureSubject {
  readonly inputs: readonly SignatureValue[]
  readonly outputs: readonly SignatureValue[]
  /** 0: requests are never joined. `null`: a load finds out. */
  readonly maxBatchSize: number | null
  /** Whether data without dims is one row. Default: true if the shapes let requests be joined. */
  readonly byRow?: boolean
}

/** The source text of an interface, for `engine.load<Name>()`. */
export function interfaceSource(
  name: string,
  file: string,
  { inputs, outputs, maxBatchSize, byRow }: SignatureSubject,
): string {
  const stackable = notStackable({ inputs, outputs }) === null
  const plain = [...inputs, ...outputs].every(({ type }) => bindingCarrier.carries(type))
  const executor = plain ? '' : "; served with `executor: 'native'`"
  const asked = inputs.map((input) => ({
    ...input,
    optional: input.optional === true || valueTypeOf(input.type)!.kind === 'optional',
  }))
  const given = members(asked, (input) => inputType(input, byRow ?? stackable))
  const answered = members(outputs, ({ type }) => typeText(valueTypeOf(type)!))
  return `/** Inputs and outputs of \`${comment(file)}\`; ${batching(maxBatchSize, stackable)}${executor}. */
export interface ${name} extends ModelSignature {
  inputs: ${given}
  outputs: ${answered}
}
`
}

function batching(maxBatchSize: number | null, stackable: boolean): string {
  if (maxBatchSize === null)
    return stackable ? 'requests share runs where its rows are independent' : 'each request is its own run'
  return maxBatchSize === 0 ? 'each request is its own run' : 'requests share runs'
}

function inputType(input: SignatureValue, byRow: boolean): string {
  const { type, image } = input
  const types = [typeText(valueTypeOf(type)!)]
  if (isElementType(type) && takesBareData(input, byRow)) types.push(bareData[type])
  if (image && !types.includes('Uint8Array')) types.push('Uint8Array')
  return types.join(' | ')
}

/** A type in TypeScript, the same for inputs and outputs. */
function typeText(type: ValueType): string {
  if (type.kind === 'tensor')
    return isRawType(type.element) ? `RawTensor<'${type.element}'>` : `TypedTensor<'${type.element}'>`
  if (type.kind === 'optional') return `${typeText(type.item)} | null`
  if (type.kind === 'seq')
    return type.item.kind === 'optional' ? `(${typeText(type.item)})[]` : `${typeText(type.item)}[]`
  const entry =
    type.value === 'string'
      ? 'string'
      : type.value === 'int64' || type.value === 'uint64'
        ? 'bigint'
        : 'number'
  return type.key === 'string' ? `Record<string, ${entry}>` : `Map<bigint, ${entry}>`
}

/** Whether data without dims can be one row or the whole input: the dims of one row must be fixed. */
function takesBareData({ shape }: ValueMetadata, byRow: boolean): boolean {
  return shape.slice(byRow ? 1 : 0).every((dim) => typeof dim === 'number')
}

function members(values: readonly SignatureValue[], typeOf: (value: SignatureValue) => string): string {
  const lines = values.map((value) => {
    const { name, type, shape, optional = false } = value
    const text = isElementType(type) ? ` ${comment(shownShape(shape))}` : ''
    return `    /** ${type}${text} */\n    ${key(name)}${optional ? '?' : ''}: ${typeOf(value)}\n`
  })
  return lines.length === 0 ? '{}' : `{\n${lines.join('')}  }`
}

function key(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : quoted(name)
}

/** A text as a property name. */
export function quoted(name: string): string {
  return `'${escaped(JSON.stringify(name)).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
}

function comment(text: string): string {
  return oneLine(text.replaceAll('*/', '*\\/')).replace(/\s+/g, ' ')
}
