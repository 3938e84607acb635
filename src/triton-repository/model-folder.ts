import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { invalidArgument, type InferenceError } from '../errors.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { NotReadable, readRegularFile } from '../regular-file.ts'
import { readModelConfig, type RepositoryConfig } from './config-pbtxt.ts'
import type { ConfiguredTensor } from './configured-tensors.ts'
import { chooseVersion, isVersion } from './version-policy.ts'

/** One model of a repository, ready for `engine.load(name, config)`. */
export interface RepositoryEntry {
  /** The name of its folder. */
  readonly name: string
  /** The name of the version folder that is served. */
  readonly version: string
  readonly config: ModelConfig
  /** As `config.pbtxt` lists them; empty where it lists none. */
  readonly inputs: readonly ConfiguredTensor[]
  readonly outputs: readonly ConfiguredTensor[]
  /** What in `config.pbtxt` changes nothing here, each with its line and the reason. */
  readonly notes: readonly string[]
}

/** Largest `config.pbtxt`; those of real models have some kilobytes. */
const limitBytes = 2 ** 22

const unconfigured: RepositoryConfig = {
  options: {},
  fileName: 'model.onnx',
  versionPolicy: { kind: 'latest', count: 1 },
  inputs: [],
  outputs: [],
  notes: [],
}

/**
 * Reads one model folder: `config.pbtxt`, which may be absent, and `<version>/model.onnx`.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` or `ERR_MODEL_NOT_FOUND` (no version, or no file in it).
 */
export async function readModelFolder(repository: string, name: string): Promise<RepositoryEntry> {
  const folder = join(repository, name)
  const { options, fileName, versionPolicy, inputs, outputs, notes } = await readConfigFile(folder, name)
  const present: string[] = []
  for (const entry of await readdir(folder)) {
    if (isVersion(entry) && (await isFolder(join(folder, entry)))) present.push(entry)
  }
  const allNotes = [...notes]
  const version = chooseVersion(name, versionPolicy, present, (text) => allNotes.push(`version_policy: ${text}`))
  const path = await modelFile(name, join(folder, version, fileName))
  return { name, version, config: { path, version, ...options }, inputs, outputs, notes: allNotes }
}

async function readConfigFile(folder: string, model: string): Promise<RepositoryConfig> {
  const file = join(folder, 'config.pbtxt')
  try {
    return readModelConfig({ model, file, text: (await readRegularFile(file, limitBytes)).toString() })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException | InferenceError
    if (code === 'ENOENT') return unconfigured
    if (code?.startsWith('ERR_') === true) throw error
    const isTooLarge = error instanceof NotReadable && code === 'EFBIG'
    throw invalidArgument('config.pbtxt', isTooLarge ? `at most ${limitBytes} bytes` : 'a readable file', message, { code: 'ERR_MODEL_CONFIG', model, cause: error })
  }
}

/** A model with external data may be a folder `model.onnx` with a file `model.onnx` in it. */
async function modelFile(model: string, path: string): Promise<string> {
  const file = (await isFolder(path)) ? join(path, 'model.onnx') : path
  const found = await stat(file).catch(() => null)
  if (found?.isFile() === true) return file
  const received = found === null ? 'no such file' : 'a folder, a pipe, a socket or a device'
  throw invalidArgument('path', `a model file at ${file}`, received, { code: 'ERR_MODEL_NOT_FOUND', model })
}

/** Follows links. */
export async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() ?? false
}
