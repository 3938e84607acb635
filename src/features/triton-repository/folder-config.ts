import { isUtf8 } from 'node:buffer'
import { realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { jsonPieces } from '../../base/bounded-json.ts'
import { NotReadable, readRegularFile } from '../../base/files.ts'
import { requireFromPackage } from '../../base/own-package.ts'
import { doAll } from '../../base/slices.ts'
import { InferenceError, invalidArgument, invalidConfig } from '../../errors.ts'
import type { ModelOptions } from '../../options/model-config.ts'
import type { FeedValue } from '../../options/model-signature.ts'
import type { PipelineOutput } from '../../options/pipeline-config.ts'
import { isPlainObject, readPlain } from '../../options/plain-options.ts'
import type { OutputConfig } from '../../options/tensor-config.ts'
import { readModelConfig, type RepositoryConfig } from './config-pbtxt.ts'
import { makeSamples, makeTensorFeed, readOwnFile } from './config-tensors.ts'
import { fieldType, isEnumeration, isMessage, type MessageName } from './model-config-schema.ts'
import { configError, type ConfigSource } from './text-format.ts'
import { isVersion, type VersionPolicy } from './version-policy.ts'

/** The configuration in a model's folder, with the files that belong to it. */
type FolderConfig = Omit<RepositoryConfig, 'labelFiles' | 'warmups' | 'initialStates'>

/** Largest `config.pbtxt`. Real ones have some kilobytes. */
const limitBytes = 2 ** 22

/**
 * Reads the configuration in a model's folder: `config.pbtxt`, or a module or JSON instead, or none.
 *
 * @param instead replaces all of these: a configuration for Triton, as JSON.
 * @param present names of the files in the folder.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export async function readFolderConfig(
  folder: string,
  model: string,
  present: readonly string[],
  instead?: string,
): Promise<FolderConfig> {
  if (instead !== undefined)
    return fromText(folder, {
      model,
      file: 'the configuration that was sent',
      text: textOfJson(model, instead),
    })
  const files = ['config.pbtxt', ...moduleNames].filter((name) => present.includes(name))
  if (files.length > 1) {
    throw invalidConfig(
      model,
      'config',
      'one configuration',
      files,
      `Both ${files.join(' and ')} are in ${folder}: remove all but one`,
    )
  }
  const [fileName] = files
  if (fileName !== undefined && fileName !== 'config.pbtxt') return fromModule(folder, model, fileName)
  const file = join(folder, 'config.pbtxt')
  if (fileName === undefined)
    return { ...readModelConfig({ model, file, text: '' }), atField: (error) => error }
  return fromText(folder, await readSource(file, model))
}

async function fromText(folder: string, source: ConfigSource): Promise<FolderConfig> {
  const config = readModelConfig(source)
  return { ...config, ...(await withFiles(folder, config)) }
}

async function fromModule(folder: string, model: string, fileName: string): Promise<FolderConfig> {
  const { options, labelFilenames, ...config } = await readConfigModule(folder, model, fileName)
  const file = join(folder, fileName)
  const labels = new Map<number, string[]>()
  for (const { output, name } of labelFilenames) {
    const read = readLabels(folder, name).catch((cause: Error) => {
      const hint = `In ${file}`
      throw invalidArgument(`outputs[${output}].labelFilename`, 'a file of labels', cause.message, {
        code: 'ERR_MODEL_CONFIG',
        model,
        hint,
        cause,
      })
    })
    labels.set(output, await read)
  }
  const outputs = labels.size === 0 ? {} : { outputs: withLabels(options.outputs!, labels) }
  return {
    ...config,
    options: { ...options, ...outputs },
    pipeline: null,
    namesBackend: false,
    notes: [],
    atField: (error) => errorInFile(file, error),
  }
}

/** The options, completed with data from files beside the configuration. */
async function withFiles(
  folder: string,
  { options, pipeline, labelFiles, warmups, initialStates }: RepositoryConfig,
): Promise<Pick<FolderConfig, 'options' | 'pipeline'>> {
  const complete = { ...options }
  if (warmups.length > 0) complete.warmup = await makeSamples(folder, warmups)
  const labels = new Map<number, string[]>()
  for (const { output, name, fields } of labelFiles) {
    labels.set(
      output,
      await readLabels(folder, name).catch((error: Error) =>
        fields.fail('label_filename', 'a file of labels', error.message),
      ),
    )
  }
  if (pipeline !== null)
    return {
      options,
      pipeline: { ...pipeline, outputs: withLabels(pipeline.outputs as readonly PipelineOutput[], labels) },
    }
  if (labels.size > 0) complete.outputs = withLabels(options.outputs!, labels)
  const initial = new Map<number, FeedValue>()
  for (const { state, plan } of initialStates) initial.set(state, await makeTensorFeed(folder, plan))
  if (initial.size > 0) {
    const state = options.sequence!.state!.map((each, index) =>
      initial.has(index) ? { ...each, initial: initial.get(index)! } : each,
    )
    complete.sequence = { ...options.sequence, state }
  }
  return { options: complete, pipeline: null }
}

async function readSource(file: string, model: string): Promise<ConfigSource> {
  const bytes = await readBytes(file, model)
  const source = { model, file, text: bytes.toString() }
  if (isUtf8(bytes)) return source
  throw configError(source, source.text.indexOf('\ufffd'), 'config.pbtxt', 'text in UTF-8', 'other bytes')
}

async function readBytes(file: string, model: string): Promise<Buffer> {
  try {
    return await readRegularFile(file, limitBytes)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const isTooLarge = error instanceof NotReadable && code === 'EFBIG'
    const expected = isTooLarge ? `at most ${limitBytes} bytes` : 'a readable file'
    throw invalidArgument('config.pbtxt', expected, message, {
      code: 'ERR_MODEL_CONFIG',
      model,
      cause: error,
      hint: `At ${file}`,
    })
  }
}

const mostValues = 2 ** 16

/**
 * Converts JSON, as Triton's clients send it with `load`, to the text of a `config.pbtxt`, so that it is
 * read, checked and refused in the same way. Names may be in snake case or in camel case; integers may be
 * quoted.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` if it is not a JSON object.
 */
function textOfJson(model: string, json: string): string {
  const wrong = (received: unknown): InferenceError =>
    invalidConfig(model, 'config', 'a JSON object', received)
  let config: unknown
  try {
    config = doAll(jsonPieces(Buffer.from(json), 'config', { mostValues }))
  } catch (error) {
    throw wrong((error as Error).message)
  }
  if (!isPlainObject(config)) throw wrong(config)
  return fieldsText('ModelConfig', config, '\n')
}

function fieldsText(message: MessageName, fields: object, between: string): string {
  return Object.entries(fields)
    .flatMap(([name, value]) => (value === null ? [] : fieldText(message, name, value)))
    .join(between)
}

/** A field that the schema lacks is written unchanged; the reader refuses it. */
function fieldText(message: MessageName, given: string, value: unknown): string {
  const snake = given.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const name = fieldType(message, snake) === null ? given : snake
  if (!/^[a-z_]\w*$/i.test(name))
    throw invalidArgument('config', `fields of ${message}`, given, { code: 'ERR_MODEL_CONFIG' })
  const type = fieldType(message, name)
  if (type === null) return `${name}: 0`
  const { key, value: one } = type
  if (key !== null && isPlainObject(value))
    return `${name}: [${Object.entries(value)
      .map(([each, of]) => `{ key: ${valueText(key, each)} value: ${valueText(one, of)} }`)
      .join()}]`
  return Array.isArray(value)
    ? `${name}: [${value.map((each) => valueText(one, each)).join()}]`
    : `${name}: ${valueText(one, value)}`
}

function valueText(type: string, value: unknown): string {
  if (isPlainObject(value)) return `{ ${isMessage(type) ? fieldsText(type, value, ' ') : ''} }`
  if (typeof value === 'boolean' || typeof value === 'number') return String(value)
  if (typeof value !== 'string') return '{ }'
  return (isEnumeration(type) && /^[A-Z]\w*$/.test(value)) || (type !== 'string' && /^-?\d+$/.test(value))
    ? value
    : JSON.stringify(value)
}

const labelLimitBytes = 2 ** 24

/**
 * Reads a label file, with one label per line.
 *
 * @throws Error with a plain message if no file can be read.
 */
async function readLabels(modelFolder: string, name: string): Promise<string[]> {
  const path = join(modelFolder, name)
  const bytes = await readOwnFile(path, labelLimitBytes, `no file at ${path}`)
  const lines = new TextDecoder().decode(bytes).split(/\r?\n/) // removes a byte order mark
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** The outputs with their labels. */
function withLabels<T extends Pick<OutputConfig, 'labels'>>(
  outputs: readonly T[],
  labels: ReadonlyMap<number, readonly string[]>,
): T[] {
  return outputs.map((output, index) => {
    const own = labels.get(index)
    return own === undefined ? output : { ...output, labels: own }
  })
}

/** Names of configuration files in JavaScript, TypeScript or JSON. */
const moduleNames = ['config.ts', 'config.mts', 'config.js', 'config.mjs', 'config.json']

/** The content of such a file. */
interface ModuleConfig extends Pick<FolderConfig, 'options' | 'fileName' | 'versionPolicy'> {
  /** Names of label files, by the index of the output. */
  readonly labelFilenames: readonly { readonly output: number; readonly name: string }[]
}

/**
 * Reads a model's configuration from a module or from JSON.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` that names the file.
 */
async function readConfigModule(folder: string, model: string, fileName: string): Promise<ModuleConfig> {
  const file = join(folder, fileName)
  const wrong: Wrong = (name, expected, received, hint, cause) =>
    invalidArgument(name, expected, received, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint: `${hint === undefined ? '' : `${hint}. `}In ${file}`,
      cause,
    })
  try {
    return readSettings(
      await (fileName.endsWith('.json') ? readJson(file) : importModule(file)),
      model,
      fileName,
      wrong,
    )
  } catch (error) {
    if (error instanceof InferenceError && error.code === 'ERR_MODEL_CONFIG') throw error
    const cause = (error instanceof InferenceError ? error.cause : error) as Error
    throw wrong(fileName, 'a configuration that can be read', cause?.message ?? cause, hintFor(cause), cause)
  }
}

/** Makes the error for an invalid value in the file. */
type Wrong = (
  name: string,
  expected: string,
  received: unknown,
  hint?: string,
  cause?: unknown,
) => InferenceError

function readSettings(exported: unknown, model: string, fileName: string, wrong: Wrong): ModuleConfig {
  if (!isPlainObject(exported)) {
    throw wrong(
      fileName,
      fileName.endsWith('.json') ? 'an object' : 'an object as its default export',
      exported,
      'export default defineModelConfig({ ... })',
    )
  }
  const { name, versionPolicy, defaultModelFilename, ...options } = readPlain('config', exported, { model })
  if (name !== undefined && name !== model) throw wrong('name', `the name of its folder, '${model}'`, name)
  for (const option of ['path', 'bytes', 'version']) {
    if (option in options)
      throw wrong(
        option,
        'to be omitted: the files of a model are those of its version folders',
        options[option],
      )
  }
  const isFileName = (value: unknown): value is string =>
    typeof value === 'string' && value !== '' && !/[/\\\0]/.test(value) && value !== '.' && value !== '..'
  if (defaultModelFilename !== undefined && !isFileName(defaultModelFilename)) {
    throw wrong('defaultModelFilename', 'the name of a file in the version folder', defaultModelFilename)
  }
  const policy = readPolicy(versionPolicy)
  if (policy === null)
    throw wrong('versionPolicy', "{ latest: count }, 'all' or { specific: versions }", versionPolicy)
  const labelFilenames: { output: number; name: string }[] = []
  if (Array.isArray(options['outputs'])) {
    options['outputs'] = options['outputs'].map((output: unknown, index) => {
      if (!isPlainObject(output) || !('labelFilename' in output)) return output
      const { labelFilename, ...others } = output
      if (!isFileName(labelFilename))
        throw wrong(
          `outputs[${index}].labelFilename`,
          'the name of a file in the folder of the model',
          labelFilename,
        )
      if (others['labels'] !== undefined)
        throw wrong(`outputs[${index}].labels`, 'to be omitted beside labelFilename', others['labels'])
      labelFilenames.push({ output: index, name: labelFilename })
      return others
    })
  }
  return {
    options: options as ModelOptions,
    labelFilenames,
    fileName: defaultModelFilename,
    versionPolicy: policy,
  }
}

async function readJson(file: string): Promise<unknown> {
  return JSON.parse(new TextDecoder().decode(await readRegularFile(file, limitBytes))) // removes a byte order mark
}

/** Modules are cached by URL. A file that has changed gets another URL. */
async function importModule(file: string): Promise<unknown> {
  const { mtimeMs, ctimeMs } = await stat(file) // copying may keep mtime, never ctime
  const url = pathToFileURL(file)
  delete requireFromPackage.cache[await realpath(file)] // the cache of CommonJS modules is keyed by path
  url.searchParams.set('changed', `${mtimeMs} ${ctimeMs}`)
  return ((await import(url.href)) as { default?: unknown }).default
}

function hintFor(cause: NodeJS.ErrnoException | undefined): string | undefined {
  const { code, message = '' } = cause ?? {}
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION') {
    return `Node reads TypeScript from 22.18 on, and this is ${process.version}: give it as config.mjs or config.json, or run Node with a loader such as tsx`
  }
  if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND')
    return 'Modules are looked for from its folder on upwards: export the object itself where zerohop is not found from there'
  if (/Unexpected token 'export'|Cannot use import statement/.test(message))
    return 'Name it config.mjs, or put "type": "module" into its package.json'
  return undefined
}

function readPolicy(policy: unknown): VersionPolicy | null {
  if (policy === undefined) return { kind: 'latest', count: 1 }
  if (policy === 'all') return { kind: 'all' }
  if (!isPlainObject(policy) || Object.keys(policy).length !== 1) return null
  const { latest, specific } = policy
  if (Number.isSafeInteger(latest) && (latest as number) > 0)
    return { kind: 'latest', count: latest as number }
  const isNumber = (version: unknown) =>
    typeof version === 'number'
      ? Number.isSafeInteger(version) && version > 0
      : typeof version === 'string' && isVersion(version)
  return Array.isArray(specific) && specific.length > 0 && specific.every(isNumber)
    ? { kind: 'specific', versions: specific.map(String) }
    : null
}

/** An error about an option, with the file that it comes from. */
function errorInFile(file: string, error: InferenceError): InferenceError {
  const { code, argument, message, model, expected, received } = error
  if (code !== 'ERR_MODEL_CONFIG' || argument === undefined || message.includes(file)) return error
  return new InferenceError(code, `${message}. In ${file}`, {
    model,
    name: argument,
    expected,
    received,
    cause: error,
  })
}
