import type { ElementType, ValueMetadata } from '../index.ts'
import { bindingCarrier, notStackable, shownShape } from '../tensor/metadata.ts'
import { isElementType, isRawType } from '../tensor/tensor.ts'
import { valueTypeOf, type ValueType } from '../tensor/values.ts'
import { escaped, oneLine } from './command-line.ts'

/** What a caller may give in place of a tensor of each type. */
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

/** Names that the text of an interface uses, and that none may therefore have. */
export const namesInUse: readonly string[] = [
  'ModelSignature',
  'RawTensor',
  'TypedTensor',
  'Record',
  'Map',
  ...new Set(Object.values(bareData)),
]

/** An input or output as requests have it. */
export interface SignatureValue extends ValueMetadata {
  /** Whether a request may leave it out, or an answer may be without it. */
  readonly optional?: boolean
  /** Whether an encoded image is taken as well. */
  readonly image?: boolean
}

/** What is written of a model. */
export interface SignatureSubject {
  readonly inputs: readonly SignatureValue[]
  readonly outputs: readonly SignatureValue[]
  /** 0: requests are never joined. `null`: a load finds out whether they are. */
  readonly maxBatchSize: number | null
  /** Whether data without dims is one row; default: where the shapes let requests be joined. */
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

/** A type as TypeScript has it: the same for what is given and what is answered. */
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

/** Whether data without dims can be one row, or all there is: what one row has is fixed. */
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

/** A text as a property's name. */
export function quoted(name: string): string {
  return `'${escaped(JSON.stringify(name)).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
}

function comment(text: string): string {
  return oneLine(text.replaceAll('*/', '*\\/')).replace(/\s+/g, ' ')
}
