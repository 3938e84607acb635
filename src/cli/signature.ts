import type { ElementType, ModelMetadata, ValueMetadata } from '../index.ts'
import { bindingCarrier } from '../carriers.ts'
import { notStackable, shownShape } from '../metadata.ts'
import { isElementType, isRawType } from '../tensor.ts'
import { valueTypeOf, type ValueType } from '../value-type.ts'

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
  string: 'readonly string[]',
  bfloat16: 'Uint16Array',
  float8e4m3fn: 'Uint8Array',
  float8e4m3fnuz: 'Uint8Array',
  float8e5m2: 'Uint8Array',
  float8e5m2fnuz: 'Uint8Array',
  int4: 'Uint8Array',
  uint4: 'Uint8Array',
}

/** The source text of a module with one interface, for `engine.load<Name>()`. */
export function signatureSource(name: string, file: string, metadata: ModelMetadata): string {
  const { inputs, outputs, maxBatchSize } = metadata
  const batching = maxBatchSize === 0 ? 'each request is its own run' : 'requests share runs'
  const plain = [...inputs, ...outputs].every(({ type }) => bindingCarrier.carries(type))
  const executor = plain ? '' : "; served with `executor: 'native'`"
  const byRow = notStackable(metadata) === null
  // onnxruntime-node comes with every installation, and its tensors are those of this library.
  const given = members(inputs, (input) => inputType(input, byRow))
  const answered = members(outputs, ({ type }) => typeText(valueTypeOf(type)!))
  const uses = (name: string) => `${given}${answered}`.includes(`${name}<`)
  return `// Written by \`zerohop types\`; write it anew when the model changes.
${uses('TypedTensor') ? "import type { TypedTensor } from 'onnxruntime-node'\n" : ''}import type { ModelSignature${uses('RawTensor') ? ', RawTensor' : ''} } from 'zerohop'

/** Inputs and outputs of \`${comment(file)}\`; ${batching}${executor}. */
export interface ${name} extends ModelSignature {
  inputs: ${given}
  outputs: ${answered}
}
`
}

/** What the module imports. */
const imported: readonly string[] = ['ModelSignature', 'RawTensor', 'TypedTensor']

/**
 * A name for a model's interface: its file's, or in a repository (`resnet-50/1/model.onnx`) that of its folder, as
 * `Resnet50`.
 */
export function signatureName(path: string): string {
  const parts = path.split(/[/\\]/).filter((part) => part !== '' && part !== '.' && part !== '..')
  const names = parts.map((part) => part.replace(/\.(?:onnx|ort)$/, ''))
  const telling = names.findLast((part) => part !== 'model' && !/^\d+$/.test(part))
  const words = (telling ?? '').match(/[A-Za-z0-9]+/g) ?? []
  const name = words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('')
  return /^[A-Z]/.test(name) && !imported.includes(name) ? name : `Model${name}`
}

function inputType(input: ValueMetadata, byRow: boolean): string {
  const { type } = input
  const text = typeText(valueTypeOf(type)!)
  return isElementType(type) && takesBareData(input, byRow) ? `${text} | ${bareData[type]}` : text
}

/** A type as TypeScript has it: the same for what is given and what is answered. */
function typeText(type: ValueType): string {
  if (type.kind === 'tensor') return isRawType(type.element) ? `RawTensor<'${type.element}'>` : `TypedTensor<'${type.element}'>`
  if (type.kind === 'optional') return `${typeText(type.item)} | null`
  if (type.kind === 'seq') return type.item.kind === 'optional' ? `(${typeText(type.item)})[]` : `${typeText(type.item)}[]`
  const entry = type.value === 'string' ? 'string' : type.value === 'int64' || type.value === 'uint64' ? 'bigint' : 'number'
  return type.key === 'string' ? `Record<string, ${entry}>` : `Map<bigint, ${entry}>`
}

/** Whether data without dims can be one row, or all there is: what one row has is fixed. */
function takesBareData({ shape }: ValueMetadata, byRow: boolean): boolean {
  return shape.slice(byRow ? 1 : 0).every((dim) => typeof dim === 'number')
}

function members(values: readonly ValueMetadata[], typeOf: (value: ValueMetadata) => string): string {
  const lines = values.map((value) => {
    const { name, type, shape } = value
    return `    /** ${type}${isElementType(type) ? ` ${comment(shownShape(shape))}` : ''} */\n    ${key(name)}: ${typeOf(value)}\n`
  })
  return lines.length === 0 ? '{}' : `{\n${lines.join('')}  }`
}

function key(name: string): string {
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return name
  return `'${JSON.stringify(name).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
}

function comment(text: string): string {
  return text.replaceAll('*/', '*\\/').replace(/\s+/g, ' ')
}
