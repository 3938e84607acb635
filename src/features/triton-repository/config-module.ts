import { realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ModelOptions, RepositoryOutputConfig } from '../../options/model-config.ts'
import { isPlainObject, readPlain } from '../../options/plain-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import { requireFromPackage } from '../../base/own-package.ts'
import { readRegularFile } from '../../base/files.ts'
import type { VersionPolicy } from './version-policy.ts'

/** Names that a configuration in JavaScript, TypeScript or JSON may have. */
export const moduleNames = ['config.ts', 'config.mts', 'config.js', 'config.mjs', 'config.json']

/** What such a file says. */
export interface ModuleConfig {
  readonly options: ModelOptions
  /** Names of label files, by the place of the output. */
  readonly labelFilenames: readonly { readonly output: number; readonly name: string }[]
  readonly fileName: string | undefined
  readonly versionPolicy: VersionPolicy
}

const limitBytes = 2 ** 22

/**
 * Reads the configuration of a model from a module, or from JSON.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` that names the file.
 */
export async function readConfigModule(
  folder: string,
  model: string,
  fileName: string,
): Promise<ModuleConfig> {
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

/** The error of something that is wrong in the file. */
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
        'to be left out: the files of a model are those of its version folders',
        options[option],
      )
  }
  const isFileName = (value: unknown) =>
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
      const { labelFilename, ...others } = output as unknown as RepositoryOutputConfig
      if (!isFileName(labelFilename))
        throw wrong(
          `outputs[${index}].labelFilename`,
          'the name of a file in the folder of the model',
          labelFilename,
        )
      if (others.labels !== undefined)
        throw wrong(`outputs[${index}].labels`, 'to be left out beside labelFilename', others.labels)
      labelFilenames.push({ output: index, name: labelFilename! })
      return others
    })
  }
  return {
    options: options as ModelOptions,
    labelFilenames,
    fileName: defaultModelFilename as string | undefined,
    versionPolicy: policy,
  }
}

async function readJson(file: string): Promise<unknown> {
  return JSON.parse(new TextDecoder().decode(await readRegularFile(file, limitBytes))) // without a mark of its byte order
}

/** Modules are kept by their address: one that has changed since gets another. */
async function importModule(file: string): Promise<unknown> {
  const { mtimeMs, ctimeMs } = await stat(file) // a copy may keep the first, and nothing the second
  const url = pathToFileURL(file)
  delete requireFromPackage.cache[await realpath(file)] // where CommonJS modules are kept, by their paths
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
  const isVersion = (version: unknown) =>
    typeof version === 'number'
      ? Number.isSafeInteger(version) && version > 0
      : typeof version === 'string' && /^[1-9]\d*$/.test(version)
  return Array.isArray(specific) && specific.length > 0 && specific.every(isVersion)
    ? { kind: 'specific', versions: specific.map(String) }
    : null
}

/** An error of an option, with the file that it comes from. */
export function errorInFile(file: string, error: InferenceError): InferenceError {
  const { code, argument, message, model, expected, received } = error
  if (code !== 'ERR_MODEL_CONFIG' || argument === undefined || message.includes(file)) return error
  const details = {
    name: argument,
    expected,
    received,
    cause: error,
    ...(model === undefined ? {} : { model }),
  }
  return new InferenceError(code, `${message}. In ${file}`, details)
}
