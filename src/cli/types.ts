import { writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { InferenceError, invalidArgument, listNames } from '../errors.ts'
import type { ValueMetadata } from '../index.ts'
import { isElementType } from '../tensor/tensor.ts'
import { isFolder } from '../features/triton-repository/model-folder.ts'
import { failureOf, tell, tellLine } from './command-line.ts'
import { readValues } from './model-file.ts'
import { repositoryTypes } from './repository-types.ts'
import { signatureName, signatureSource } from './signature-module.ts'
import { isSameFile } from './same-file.ts'
import { namesInUse, type SignatureValue } from './signature.ts'

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

/** Writes the types of the models that can be read, and reports the others. */
async function writeRepository(folder: string, out: string | undefined): Promise<void> {
  const { source, unsupported, failures } = await repositoryTypes(folder)
  if (source !== null) await write(source, out)
  for (const { model, message } of unsupported)
    tellLine(`skipped '${model}', which is for another backend: ${message}`)
  for (const failure of failures) tell(failureOf(failure))
  if (failures.length === 0 && source !== null) return
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
