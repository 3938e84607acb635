import type { ElementType, ValueMetadata } from '../index.ts'
import { bindingCarrier, notStackable, shownShape } from '../tensor/metadata.ts'
import { isElementType, isRawType, numericTypes, storageOf } from '../tensor/tensor.ts'
import { valueTypeOf, type ValueType } from '../tensor/values.ts'
import { escaped, oneLine } from './command-line.ts'

/** What callers may give instead of a tensor. */
function bareData(type: ElementType): string {
  return type === 'string' ? 'string | readonly string[]' : storageOf(type).name
}

/** Names used in an interface's text, which therefore no interface may have. */
export const namesInUse: readonly string[] = [
  'ModelSignature',
  'RawTensor',
  'TypedTensor',
  'Record',
  'Map',
  ...new Set(numericTypes.map(bareData)),
]

/** An input or output of requests. */
export interface SignatureValue extends ValueMetadata {
  /** Whether a request may omit it, or an answer may lack it. */
  readonly optional?: boolean
  /** Whether it also accepts an encoded image. */
  readonly image?: boolean
}

/** A model for which an interface is written. */
interface SignatureSubject {
  readonly inputs: readonly SignatureValue[]
  readonly outputs: readonly SignatureValue[]
  /** 0: requests are never joined. `null`: a load finds out. */
  readonly maxBatchSize: number | null
  /** Whether data without dims is one row. Default: true if the shapes let requests be joined. */
  readonly byRow?: boolean
}

/** The source text of an interface, for `engine.load<Name>()`. */
function interfaceSource(
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
  if (isElementType(type) && takesBareData(input, byRow)) types.push(bareData(type))
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
function quoted(name: string): string {
  return `'${escaped(JSON.stringify(name)).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
}

function comment(text: string): string {
  return oneLine(text.replaceAll('*/', '*\\/')).replace(/\s+/g, ' ')
}

/** Name of the interface that maps a repository's model names to their interfaces. */
const mapName = 'Models'

/** The source text of a module with the interface of one model. */
export function signatureSource(name: string, file: string, subject: SignatureSubject): string {
  return `${heading('the model')}${moduleSource([interfaceSource(name, file, subject)])}`
}

/** A model of a repository. */
export interface NamedSubject extends SignatureSubject {
  readonly model: string
  /** The file's name in the comment. */
  readonly file: string
}

/** The source text for all models of a repository, with a map from their names to the interfaces. */
export function repositorySource(subjects: readonly NamedSubject[]): string {
  const names = uniqueNames(subjects.map(({ model }) => model))
  const interfaces = subjects.map((subject, index) => interfaceSource(names[index]!, subject.file, subject))
  const entries = subjects.map(({ model }, index) => `  ${quoted(model)}: ${names[index]}\n`)
  const map = `/** By the names of the models: \`engine.model<${mapName}['name']>('name')\`. */\nexport interface ${mapName} {\n${entries.join('')}}\n`
  return `${heading('a model')}${moduleSource([...interfaces, map])}`
}

const heading = (what: string): string =>
  `// Written by \`zerohop types\`; write it anew when ${what} changes.\n`

function moduleSource(parts: readonly string[]): string {
  const body = parts.join('\n')
  const uses = (name: string) => body.includes(`${name}<`)
  // onnxruntime-node is part of every installation, and this library uses its tensors.
  return `${uses('TypedTensor') ? "import type { TypedTensor } from 'onnxruntime-node'\n" : ''}import type { ModelSignature${uses('RawTensor') ? ', RawTensor' : ''} } from 'zerohop'

${body}`
}

/**
 * A name for a model's interface, from its file or, in a repository (`resnet-50/1/model.onnx`), from its
 * folder: `Resnet50`.
 */
export function signatureName(path: string): string {
  const parts = path.split(/[/\\]/).filter((part) => part !== '' && part !== '.' && part !== '..')
  const names = parts.map((part) => part.replace(/\.(?:onnx|ort)$/, ''))
  const telling = names.findLast((part) => part !== 'model' && !/^\d+$/.test(part))
  return interfaceName(telling ?? '')
}

function interfaceName(text: string, taken = namesInUse): string {
  const words = text.match(/[A-Za-z0-9]+/g) ?? []
  const name = words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('')
  return /^[A-Z]/.test(name) && !taken.includes(name) ? name : `Model${name}`
}

/** Adds numbers to names that would otherwise be equal. */
function uniqueNames(models: readonly string[]): string[] {
  const taken = new Set([...namesInUse, mapName])
  return models.map((model) => {
    const plain = interfaceName(model, [...namesInUse, mapName])
    let name = plain
    for (let number = 2; taken.has(name); number++) name = `${plain}_${number}`
    taken.add(name)
    return name
  })
}
