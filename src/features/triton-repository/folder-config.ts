import { isUtf8 } from 'node:buffer'
import { join } from 'node:path'
import type { FeedValue } from '../../options/model-signature.ts'
import type { ModelOptions } from '../../options/model-config.ts'
import type { PipelineOutput } from '../../options/pipeline-config.ts'
import { invalidArgument, type InferenceError } from '../../errors.ts'
import { NotReadable, readRegularFile } from '../../base/files.ts'
import { textOfJson } from './config-json.ts'
import { errorInFile, moduleNames, readConfigModule } from './config-module.ts'
import { readModelConfig, type RepositoryConfig } from './config-pbtxt.ts'
import { configError, type ConfigSource } from './config-source.ts'
import { readLabels, withLabels } from './label-files.ts'
import { makeSamples } from './model-warmup.ts'
import { makeTensorFeed } from './tensor-plans.ts'
import type { VersionPolicy } from './version-policy.ts'

/** What a model's folder says of it, with the files that belong to that. */
export interface FolderConfig {
  readonly options: ModelOptions
  /** Of an ensemble, which has no options then; `null` for a model. */
  readonly pipeline: RepositoryConfig['pipeline']
  readonly fileName: string | undefined
  readonly namesBackend: boolean
  readonly versionPolicy: VersionPolicy
  readonly notes: readonly string[]
  /** An error of an option, as one of the file that it comes from. */
  readonly atField: (error: InferenceError) => InferenceError
}

/** Largest `config.pbtxt`; those of real models have some kilobytes. */
const limitBytes = 2 ** 22

/**
 * Reads the configuration in a model's folder: `config.pbtxt`, or a module or JSON instead, or none.
 *
 * @param instead in place of all of these: Triton's, as JSON.
 * @param present names of what is in the folder.
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
    throw invalidArgument('config', 'one configuration', files, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint: `Both ${files.join(' and ')} are in ${folder}: remove all but one`,
    })
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

/** The options, with what is in files beside the configuration. */
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
