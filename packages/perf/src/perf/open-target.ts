import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import {
  type EngineOptions,
  InferenceEngine,
  InferenceError,
  type InferenceErrorCode,
  type InferOptions,
  type Model,
  type ModelOptions,
  type PipelineConfig,
} from 'zerohop'
import { invalidArgument, isFolder, readModelFolder, type VersionConfig } from 'zerohop/internals'
import { checkAnswer, type SampleSource } from './input/sample-source.ts'
import type { Send } from './load/load.ts'
import type { PerfResult } from './result-schema.ts'
import { machineFacts } from './result.ts'

const mostNames = 20

/** The model to measure, and its configuration. */
interface TargetSettings {
  /** A model file, the folder of a repository's model or, with `repository`, its name. */
  readonly model: string
  readonly repository?: string | undefined
  /** Version of a repository's model. Default: the newest one served. */
  readonly version?: string | undefined
  readonly engine?: EngineOptions
  /** Overrides the configuration in the model's folder; a function receives that one. */
  readonly config?: ModelOptions | ((before: ModelOptions) => ModelOptions)
  /** Aborts the load. */
  readonly signal?: AbortSignal
}

/** A loaded model in its own engine. */
export interface OpenedModel {
  readonly engine: InferenceEngine
  readonly model: Model
  /** The models of an ensemble's steps, each once; empty for other models. */
  readonly composingModels: readonly Model[]
  /** Whether its requests belong to sequences. */
  readonly hasSequences: boolean
  /** The configuration of the model. */
  readonly config: VersionConfig
  readonly machine: PerfResult['machine']
}

/**
 * Loads a model in a new engine, which the caller closes.
 *
 * @throws InferenceError as `engine.load()` does; `ERR_MODEL_NOT_FOUND` if there is neither a file nor a
 * repository's model.
 */
export async function openTarget(target: TargetSettings): Promise<OpenedModel> {
  const { model: path, repository, version, engine: options, config: given = {}, signal } = target
  const engine = new InferenceEngine(options)
  try {
    const overrides = typeof given === 'function' ? given : () => given
    const { name, config } = await findModel(path, repository, version, overrides)
    const [model, ...composingModels] =
      'steps' in config
        ? await loadPipeline(engine, name, config, repository ?? dirname(resolve(path)), overrides({}))
        : [await engine.load(name, config, signal === undefined ? {} : { signal })]
    return {
      engine,
      model: model!,
      composingModels,
      hasSequences: 'sequence' in config && config.sequence !== undefined,
      config,
      machine: machineFacts(engine.capabilities()),
    }
  } catch (error) {
    await engine.destroy()
    throw error
  }
}

async function findModel(
  given: string,
  repository: string | undefined,
  version: string | undefined,
  overrides: (before: ModelOptions) => ModelOptions,
): Promise<{ name: string; config: VersionConfig }> {
  if (repository === undefined && !(await isFolder(given))) {
    if (version !== undefined)
      throw invalidArgument(
        'model version',
        'none, as only models of a repository have versions, and this is a file',
        version,
      )
    await checkFile(given)
    return { name: basename(given), config: { ...overrides({}), path: given } }
  }
  const folder = repository === undefined ? resolve(given) : resolve(repository, given)
  if (!(await isFolder(folder)))
    throw notFound(
      folder,
      repository === undefined
        ? 'the folder of a model'
        : `a model of the repository ${repository} (${await modelsIn(repository)})`,
    )
  const { name, configs } = await readModelFolder(dirname(folder), basename(folder))
  const config = version === undefined ? configs[0] : configs.find((each) => String(each.version) === version)
  if (config === undefined)
    throw notFound(
      version,
      `one of the versions of '${name}' that are served (${configs.map((each) => each.version).join(', ')})`,
    )
  return { name, config: 'steps' in config ? config : { ...config, ...overrides(config) } }
}

async function checkFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => null)
  if (found?.isFile() !== true)
    throw notFound(
      resolve(path),
      "a model file, the folder of a repository's model, or its name beside --model-repository",
    )
}

/** Names of models, as many as fit into a line. */
async function modelsIn(repository: string): Promise<string> {
  const entries = await readdir(repository, { withFileTypes: true }).catch(() => null)
  if (entries === null) return 'which is no folder that can be read'
  const names = entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()
  return names.length === 0
    ? 'which has none'
    : `it has ${names.slice(0, mostNames).join(', ')}${names.length > mostNames ? ', ...' : ''}`
}

/** The ensemble and the models of its steps, from the same repository. */
async function loadPipeline(
  engine: InferenceEngine,
  name: string,
  { steps }: PipelineConfig,
  repository: string,
  overrides: ModelOptions,
): Promise<Model[]> {
  const [setting] = Object.keys(overrides)
  if (setting !== undefined)
    throw invalidArgument(
      setting,
      'to be omitted for an ensemble, whose steps have settings of their own',
      setting,
    )
  const names = [name, ...new Set(Object.values(steps).map(({ model }) => model))]
  await engine.loadRepository(repository, { models: names })
  return names.map((each) => engine.model(each))
}

function notFound(received: unknown, expected: string) {
  return invalidArgument('model', expected, received, { code: 'ERR_MODEL_NOT_FOUND' })
}

/** The part of a `Model` that is measured. */
export type PerfModel = Pick<Model, 'name' | 'version' | 'metadata' | 'infer' | 'stats'>

/** A model of an ensemble's step. Only its statistics are read. */
export type ComposedModel = Pick<Model, 'name' | 'version' | 'stats'>

/** A loaded model and the requests for it. */
export interface PerfTarget {
  readonly model: PerfModel
  readonly source: SampleSource
  /** The models of an ensemble's steps. Default: none. */
  readonly composingModels?: readonly ComposedModel[]
  /** Default: no information. */
  readonly machine?: PerfResult['machine']
}

/** Failures caused by the request itself: all others would fail in the same way. */
const hopeless: readonly InferenceErrorCode[] = ['ERR_INVALID_ARG', 'ERR_EXECUTION']

/**
 * Sends one request, to find out whether it can be answered at all. @throws InferenceError if not, and the
 * signal's reason when it is aborted.
 */
export async function probe({ model, source }: PerfTarget, signal: AbortSignal): Promise<void> {
  try {
    await sender(model, signal)(source.next(0))
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof InferenceError && hopeless.includes(error.code)) throw error
  }
  for (const { feeds, options } of source.endings?.() ?? [])
    await model.infer(feeds, { ...options, signal }).catch(() => {})
  signal.throwIfAborted()
}

/**
 * Sends requests to a model.
 *
 * @param signal aborts all requests; `null` for none, which costs nothing.
 */
export function sender(model: PerfModel, signal: AbortSignal | null): Send {
  const withSignal: InferOptions | undefined = signal === null ? undefined : { signal }
  return ({ feeds, options, expected }) => {
    const all = signal === null ? options : options === undefined ? withSignal : { ...options, signal }
    const answer = all === undefined ? model.infer(feeds) : model.infer(feeds, all)
    return expected === undefined ? answer : answer.then((outputs) => checkAnswer(outputs, expected))
  }
}
