import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { invalidArgument, type InferenceError } from '../../errors.ts'
import type { ModelConfig } from '../../options/model-config.ts'
import type { PipelineConfig } from '../../options/pipeline-config.ts'
import { unsupported } from './check-backend.ts'
import { readFolderConfig } from './folder-config.ts'
import { chooseVersions, isVersion } from './version-policy.ts'

/** The configuration of one version in a model folder: of a model, or of a pipeline for an ensemble. */
export type VersionConfig = ModelConfig | PipelineConfig

/**
 * One model of a repository, ready for `engine.load(name, config)` or `engine.loadPipeline(name, config)`.
 */
export interface RepositoryEntry {
  /** The name of its folder. */
  readonly name: string
  /** The configurations of the versions to serve, the newest first. */
  readonly configs: readonly VersionConfig[]
  /** Parts of its configuration without effect here, each with its line and the reason. */
  readonly notes: readonly string[]
  /** Turns a load's error about one of `configs` into one about the file that it comes from. */
  readonly atField: (error: InferenceError) => InferenceError
}

const defaultFileName = 'model.onnx'

/** File names by which Triton recognises models of other backends. */
const otherFiles: Readonly<Record<string, string>> = {
  'model.plan': 'TensorRT',
  'model.graphdef': 'TensorFlow',
  'model.savedmodel': 'TensorFlow',
  'model.pt': 'PyTorch',
  'model.pt2': 'PyTorch',
  'model.py': 'Python',
  'model.xml': 'OpenVINO',
  'model.dali': 'DALI',
  'xgboost.json': 'FIL',
  'model.json': 'a backend of its own',
}

/**
 * Reads one model folder: its configuration, which may be missing, and `<version>/model.onnx`.
 *
 * @param config replaces the configuration in the folder: one for Triton, as JSON.
 * @throws InferenceError `ERR_MODEL_CONFIG` or `ERR_MODEL_NOT_FOUND` (no version, or no file in it).
 */
export async function readModelFolder(
  repository: string,
  name: string,
  config?: string,
): Promise<RepositoryEntry> {
  const folder = join(repository, name)
  const present = await readdir(folder)
  const { options, pipeline, fileName, namesBackend, versionPolicy, notes, atField } = await readFolderConfig(
    folder,
    name,
    present,
    config,
  )
  const folders: string[] = []
  for (const entry of present)
    if (isVersion(entry) && (await isFolder(join(folder, entry)))) folders.push(entry)
  const allNotes = [...notes]
  const chosen = chooseVersions(name, folder, versionPolicy, folders, (text) =>
    allNotes.push(`version_policy: ${text}`),
  )
  if (pipeline !== null)
    return { name, configs: chosen.map((version) => ({ ...pipeline, version })), notes: allNotes, atField }
  const versions: { version: string; path: string }[] = []
  for (const version of chosen) {
    const versionFolder = join(folder, version)
    if (fileName === undefined && !namesBackend) await checkFiles(name, versionFolder)
    versions.push({ version, path: await modelFile(name, join(versionFolder, fileName ?? defaultFileName)) })
  }
  return {
    name,
    configs: versions.map(({ version, path }) => ({ path, version, ...options })),
    notes: allNotes,
    atField,
  }
}

/** If the configuration names no backend, the model's files determine it, as in Triton. */
async function checkFiles(model: string, folder: string): Promise<void> {
  const files = await readdir(folder)
  const other = files.includes(defaultFileName)
    ? undefined
    : files.find((file) => Object.hasOwn(otherFiles, file))
  if (other === undefined) return
  const received = `${other}, of ${otherFiles[other]!}`
  const details = {
    code: 'ERR_MODEL_CONFIG',
    model,
    hint: `Only ONNX models are served. In ${folder}`,
  } as const
  throw unsupported(invalidArgument('path', defaultFileName, received, details))
}

/** A model with external data may be a folder `model.onnx` that contains a file `model.onnx`. */
async function modelFile(model: string, path: string): Promise<string> {
  const file = (await isFolder(path)) ? join(path, defaultFileName) : path
  const found = await stat(file).catch(() => null)
  if (found?.isFile() === true) return file
  const received = found === null ? 'no such file' : 'a folder, a pipe, a socket or a device'
  throw invalidArgument('path', `a model file at ${file}`, received, { code: 'ERR_MODEL_NOT_FOUND', model })
}

/** Follows links. */
export async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() ?? false
}
