import type { ElementType, ModelMetadata, TensorMetadata } from '../index.ts'
import { notStackable, shownShape } from '../metadata.ts'
import { isRawType } from '../tensor.ts'

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
  const types = [...inputs, ...outputs].map(({ type }) => type)
  const raw = types.some(isRawType)
  const typed = types.some((type) => !isRawType(type))
  const batching = maxBatchSize === 0 ? 'each request is its own run' : 'requests share runs'
  const executor = raw ? "; served with `executor: 'native'`" : ''
  const byRow = notStackable(metadata) === null
  // onnxruntime-node comes with every installation, and its tensors are those of this library.
  return `// Written by \`zerohop types\`; write it anew when the model changes.
${typed ? "import type { TypedTensor } from 'onnxruntime-node'\n" : ''}import type { ModelSignature${raw ? ', RawTensor' : ''} } from 'zerohop'

/** Inputs and outputs of \`${comment(file)}\`; ${batching}${executor}. */
export interface ${name} extends ModelSignature {
  inputs: ${members(inputs, (input) => `${tensorType(input)}${takesBareData(input, byRow) ? ` | ${bareData[input.type]}` : ''}`)}
  outputs: ${members(outputs, tensorType)}
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

function tensorType({ type }: TensorMetadata): string {
  return isRawType(type) ? `RawTensor<'${type}'>` : `TypedTensor<'${type}'>`
}

/** Whether data without dims can be one row, or all there is: what one row has is fixed. */
function takesBareData({ shape }: TensorMetadata, byRow: boolean): boolean {
  return shape.slice(byRow ? 1 : 0).every((dim) => typeof dim === 'number')
}

function members(tensors: readonly TensorMetadata[], typeOf: (tensor: TensorMetadata) => string): string {
  const lines = tensors.map((tensor) => {
    const { name, type, shape } = tensor
    return `    /** ${type} ${comment(shownShape(shape))} */\n    ${key(name)}: ${typeOf(tensor)}\n`
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
