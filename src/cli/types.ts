import { writeFile } from 'node:fs/promises'
import { basename, relative, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { InferenceError, invalidArgument, listNames } from '../errors.ts'
import { defined } from '../options/plain-options.ts'
import { readRepository } from '../features/triton-repository/read-repository.ts'
import { isFolder, type RepositoryEntry } from '../features/triton-repository/model-folder.ts'
import type { ValueMetadata, ModelConfig, PipelineConfig, PipelineInput, PipelineOutput } from '../index.ts'
import { resolveConfig } from '../options/model-config.ts'
import { namedInputs } from '../options/session-options.ts'
import { shapeTensors } from '../request/shaped-tensors.ts'
import { notStackable } from '../tensor/metadata.ts'
import { isElementType } from '../tensor/tensor.ts'
import { failureOf, tell, tellLine, isSameFile } from './command-line.ts'
import { readValues } from './model-file.ts'
import {
  signatureName,
  signatureSource,
  namesInUse,
  type SignatureValue,
  repositorySource,
  type NamedSubject,
} from './signature.ts'

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
  .option('-n, --name <name>', 'name of the interface (default: from the file name)', interfaceName)
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

function interfaceName(name: string): string {
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
