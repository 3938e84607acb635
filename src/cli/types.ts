import { writeFile } from 'node:fs/promises'
import { basename, relative, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { InferenceError, invalidArgument, listNames } from '../errors.ts'
import { defined } from '../options/plain-options.ts'
import { readRepository } from '../features/triton-repository/read-repository.ts'
import { isFolder, type RepositoryEntry } from '../features/triton-repository/model-folder.ts'
import type {
  ElementType,
  ModelConfig,
  PipelineConfig,
  PipelineInput,
  PipelineOutput,
  ValueMetadata,
} from '../index.ts'
import { resolveConfig } from '../options/model-config.ts'
import { namedInputs } from '../options/session-options.ts'
import { shapeTensors } from '../request/shaped-tensors.ts'
import { bindingCarrier, notStackable, shownShape } from '../tensor/metadata.ts'
import { isElementType, isRawType, numericTypes, storageOf } from '../tensor/tensor.ts'
import { valueTypeOf, type ValueType } from '../tensor/values.ts'
import { escaped, failureOf, isSameFile, oneLine, tell, tellLine } from './command-line.ts'
import { readValues } from './model-file.ts'

interface TypesOptions {
  readonly name?: string
  readonly image: readonly string[]
  readonly out?: string
}

/** `zerohop types model.onnx`: writes the TypeScript signature of a model, or of all models of a repository. */
export const types = new Command('types')
  .description(
    "write TypeScript types of a model's inputs and outputs, for engine.load<M>(), or of all models of a repository",
  )
  .argument('<model>', 'path of an .onnx or .ort file, or the folder of a Triton model repository')
  .option('-n, --name <name>', 'name of the interface (default: from the file name)', checkedName)
  .addOption(
    new Option('-i, --image <input>', 'input with the option `image`, which takes encoded images; repeatable')
      .argParser((name: string, before: readonly string[]) => [...before, name])
      .default([], 'none'),
  )
  .option('-o, --out <file>', 'file to write (default: standard output)')
  .action(async (path: string, { name, image, out }: TypesOptions, command: Command) => {
    if (out !== undefined && isSameFile(path, out))
      command.error("error: option '-o, --out <file>' is the model itself: name another file")
    if (!(await isFolder(path))) {
      const values = await readValues(path)
      return write(
        signatureSource(name ?? signatureName(path), basename(path), {
          ...values,
          inputs: withImages(path, values.inputs, image),
        }),
        out,
      )
    }
    if (image.length > 0)
      command.error(
        "error: option '-i, --image <input>' is for one model: in a repository set `image` of an input in its configuration",
      )
    if (name !== undefined)
      command.error("error: option '-n, --name <name>' is for one model, and this is a folder: omit it")
    await writeRepository(path, out)
  })

/**
 * Writes the types of the models of a Triton model repository that can be read, and reports the others. Of several
 * versions of a model, the newest that is served counts.
 */
async function writeRepository(folder: string, out: string | undefined): Promise<void> {
  const { entries, unsupported, failures: unread } = await readRepository(folder)
  const failures = [...unread]
  const subjects: NamedSubject[] = []
  for (const entry of entries) {
    try {
      subjects.push(await subjectOf(entry, folder))
    } catch (error) {
      if (!(error instanceof InferenceError)) throw error
      failures.push(entry.atField(error))
    }
  }
  if (subjects.length > 0) await write(repositorySource(subjects), out)
  for (const { model, message } of unsupported)
    tellLine(`skipped '${model}', which is for another backend: ${message}`)
  for (const failure of failures) tell(failureOf(failure))
  if (failures.length === 0 && subjects.length > 0) return
  const left =
    failures.length === 0
      ? 'it has no models'
      : `skipped ${failures.map(({ model }) => `'${model}'`).join(', ')}`
  throw new InferenceError('ERR_MODEL_LOAD', `${folder}: ${left}`, {
    name: 'model',
    expected: 'a repository of readable models',
    received: folder,
  })
}

/**
 * @throws InferenceError `ERR_INVALID_ARG` for names that are not inputs, or inputs that cannot take images.
 */
function withImages(
  path: string,
  inputs: readonly ValueMetadata[],
  images: readonly string[],
): SignatureValue[] {
  const isImage = ({ type, shape }: ValueMetadata) =>
    isElementType(type) && type !== 'string' && (shape.length === 3 || shape.length === 4)
  const named = inputs.filter(isImage).map((input) => input.name)
  const other = images.find((name) => !named.includes(name))
  if (other !== undefined)
    throw invalidArgument(
      '--image',
      `an input of images (${listNames(named, 'the model has none')})`,
      other,
      { model: basename(path) },
    )
  return inputs.map((input) => ({ ...input, image: images.includes(input.name) }))
}

async function write(source: string, out: string | undefined): Promise<void> {
  if (out === undefined) process.stdout.write(source)
  else await writeFile(out, source)
}

function checkedName(name: string): string {
  if (!/^[A-Z_$][\w$]*$/.test(name))
    throw new InvalidArgumentError('Expected the name of an interface, such as ResNet50.')
  if (namesInUse.includes(name)) throw new InvalidArgumentError('The written file uses that name itself.')
  return name
}

/** A model as its requests see it. */
async function subjectOf({ name, configs }: RepositoryEntry, folder: string): Promise<NamedSubject> {
  if ('steps' in configs[0]!) return ensembleSubject(name, configs[0])
  const {
    path,
    maxBatchSize: most,
    inputs,
    outputs,
    sequence,
    optionalInputs = [],
  } = configs[0] as ModelConfig & { path: string }
  const config = resolveConfig(
    name,
    defined({ path, maxBatchSize: most, inputs, outputs, sequence, optionalInputs }),
  )
  const values = await readValues(path, namedInputs(config))
  const { shown } = shapeTensors(name, config, { ...values, unservableOutputs: [] })
  const maxBatchSize = config.maxBatchSize ?? values.maxBatchSize
  const { controls = [], state: states = [] } = config.sequence ?? {}
  // Inputs that requests of a sequence omit, as the engine fills them.
  const ownInputs = new Set([
    ...optionalInputs,
    ...controls.map(({ input }) => input),
    ...states.map(({ input }) => input),
  ])
  const images = new Set(inputs?.flatMap((input) => (input.image === undefined ? [] : [input.name])))
  const ownOutputs = new Set(states.map(({ output }) => output))
  return {
    model: name,
    file: relative(resolve(folder), path),
    inputs: shown.inputs.map((value) => ({
      ...value,
      optional: ownInputs.has(value.name),
      image: images.has(value.name),
    })),
    outputs: shown.outputs.map((value) => ({ ...value, optional: ownOutputs.has(value.name) })),
    maxBatchSize,
    byRow: maxBatchSize === null ? notStackable(values) === null : maxBatchSize > 0,
  }
}

/** An ensemble; its configuration is complete. */
function ensembleSubject(model: string, { inputs, outputs, maxBatchSize = 0 }: PipelineConfig): NamedSubject {
  const byRow = maxBatchSize > 0
  const valueOf = ({ name, type, dims }: PipelineInput | PipelineOutput) => {
    const shape = dims!.map((dim) => (dim === -1 ? '' : dim))
    return { name, type: type!, shape: byRow ? ['', ...shape] : shape }
  }
  const asked = (inputs as readonly PipelineInput[]).map((input) => ({
    ...valueOf(input),
    optional: input.optional ?? false,
  }))
  // If an input is omitted, the steps that need it are skipped, and their outputs are missing.
  const optional = asked.some((input) => input.optional)
  const given = (outputs as readonly PipelineOutput[]).map((output) => ({ ...valueOf(output), optional }))
  return { model, file: `${model}/config.pbtxt`, inputs: asked, outputs: given, maxBatchSize, byRow }
}

/** What callers may give instead of a tensor. */
function bareData(type: ElementType): string {
  return type === 'string' ? 'string | readonly string[]' : storageOf(type).name
}

/** Names used in an interface's text, which therefore no interface may have. */
const namesInUse: readonly string[] = [
  'ModelSignature',
  'RawTensor',
  'TypedTensor',
  'Record',
  'Map',
  ...new Set(numericTypes.map(bareData)),
]

/** An input or output of requests. */
interface SignatureValue extends ValueMetadata {
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
  return moduleSource('the model', [interfaceSource(name, file, subject)])
}

/** A model of a repository. */
interface NamedSubject extends SignatureSubject {
  readonly model: string
  /** The file's name in the comment. */
  readonly file: string
}

/** The source text for all models of a repository, with a map from their names to the interfaces. */
function repositorySource(subjects: readonly NamedSubject[]): string {
  const names = uniqueNames(subjects.map(({ model }) => model))
  const interfaces = subjects.map((subject, index) => interfaceSource(names[index]!, subject.file, subject))
  const entries = subjects.map(({ model }, index) => `  ${quoted(model)}: ${names[index]}\n`)
  const map = `/** By the names of the models: \`engine.model<${mapName}['name']>('name')\`. */\nexport interface ${mapName} {\n${entries.join('')}}\n`
  return moduleSource('a model', [...interfaces, map])
}

/** @param what the text depends on. */
function moduleSource(what: string, parts: readonly string[]): string {
  const body = parts.join('\n')
  const uses = (name: string) => body.includes(`${name}<`)
  // onnxruntime-node is part of every installation, and this library uses its tensors.
  const tensors = uses('TypedTensor') ? "import type { TypedTensor } from 'onnxruntime-node'\n" : ''
  return `// Written by \`zerohop types\`; write it anew when ${what} changes.
${tensors}import type { ModelSignature${uses('RawTensor') ? ', RawTensor' : ''} } from 'zerohop'

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
