import { writeFileSync, existsSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import type { TrialTask, TrialWord, TrialResult } from '../../models/compiled-models/model-trial.ts'
import { join } from 'node:path'
import {
  compilingInto,
  graphFile,
  ofCompiled,
  asItIs,
  type PreparedModel,
} from '../../models/compiled-models/prepared-model.ts'
import { sealFiles } from '../../models/compiled-models/entry.ts'
import { resolveEngineOptions, type ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { OpenOptions } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { EngineResources } from '../engine-resources.ts'
import { LoadedModel } from '../loaded-model.ts'
import { compareEntry } from '../../models/row-check/compare-rows.ts'
import type { TrialFeeds } from '../../run/trial-feeds.ts'
import type { MailedValue } from '../../tensor/values.ts'
import { rowRecipes, sampleRow } from '../../run/made-up-rows.ts'
import type { TensorMetadata, ValueMetadata } from '../../tensor/metadata.ts'
import { isElementType } from '../../tensor/tensor.ts'

/**
 * The program of a process in which one model is tried. It may end in whatever way the model has it end, and ends at once with the
 * process that has started it.
 */
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// They come to a whole group, of which the process that has started this one may be about to finish its work.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.umask(0o077)
for (const giveWay of [
  () => setPriority(constants.priority.PRIORITY_BELOW_NORMAL), // others are being served
  () => writeFileSync('/proc/self/oom_score_adj', '1000'), // where memory is short this process is to end, and not the one that has started it
]) {
  try {
    giveWay()
  } catch {
    // as it is, then
  }
}

const say = (word: TrialWord): void => void process.send!(word)

process.once('message', (task: TrialTask) => {
  say({ type: 'stage', stage: 'model' })
  void completeConfig(task, process.stdin)
    .then((config) => new TrialSteps(task, config).all(() => say({ type: 'stage', stage: 'compiled form' })))
    .catch((error: Error) => ({ error: error.message, notes: {}, files: null, reason: '' }))
    .then((result) => say({ type: 'done', result }))
})
say({ type: 'started' })

/** Loads a model as the application would, and opens and runs its compiled form beside it. */
class TrialSteps {
  readonly #task: TrialTask
  readonly #config: ResolvedConfig
  readonly #resources: EngineResources
  readonly #mayRun: boolean

  /** @param config of the task, with its bytes. */
  constructor(task: TrialTask, config: ResolvedConfig) {
    const { executor, providers, workers } = task.engine
    const options: ResolvedEngineOptions = {
      ...resolveEngineOptions({ cache: false, verify: 'none', executor, workers }),
      providers,
      inline: null,
    }
    this.#task = task
    this.#config = config
    this.#resources = new EngineResources(options)
    this.#mayRun = config.checkRows || config.warmup.madeUp !== null
  }

  /** @param compiling is called when the model itself has been loaded and run, and its compiled form is next. */
  async all(compiling: () => void): Promise<TrialResult> {
    const { folder } = this.#task
    const writing =
      folder === null
        ? null
        : await this.#load(
            this.#config,
            opened((model, options) => [model, compilingInto(folder, options)]),
          )
    const loaded = writing instanceof LoadedModel ? writing : await this.#load(this.#config, asItIs(''))
    if (!(loaded instanceof LoadedModel)) return { error: loaded.message, notes: {}, files: null, reason: '' }
    const runs = this.#mayRun ? await runOnMadeUp(loaded, this.#config.optionalInputs) : []
    const found = { error: null, notes: loaded.session.noted, files: null }
    await loaded.close(true)
    if (folder === null) return { ...found, reason: 'it was loaded in a process of its own first' }
    if (writing !== loaded)
      return { ...found, reason: `its compiled form cannot be written: ${(writing as Error).message}` }
    compiling()
    const wrong = await this.#tryCompiled(join(folder, graphFile), loaded, runs)
    if (wrong !== null) return { ...found, reason: `its compiled form is not to be used: ${wrong}` }
    try {
      return {
        ...found,
        files: await sealFiles(folder),
        reason: `compiled for this machine; its outputs were compared in ${runs.length} runs`,
      }
    } catch (error) {
      return { ...found, reason: `its compiled form cannot be kept: ${(error as Error).message}` }
    }
  }

  /** What is wrong with a compiled form; `null` for nothing. */
  async #tryCompiled(path: string, model: LoadedModel, runs: readonly TrialRun[]): Promise<string | null> {
    if (!existsSync(path)) return 'ONNX Runtime has not written it'
    const config = { ...this.#config, checkRows: false, warmup: { ...this.#config.warmup, madeUp: null } }
    const compiled = await this.#load(
      config,
      opened((_, options) => [path, ofCompiled(options)]),
    )
    if (!(compiled instanceof LoadedModel)) return compiled.message
    const difference = await differenceFrom(model, runs, compiled)
    await compiled.close(true)
    return difference
  }

  async #load(config: ResolvedConfig, prepared: PreparedModel): Promise<LoadedModel | Error> {
    const model = new LoadedModel(this.#task.model, config, {
      ...this.#resources.services,
      prepare: async () => prepared,
    })
    try {
      await model.load()
      return model
    } catch (error) {
      return error as Error
    }
  }
}

function opened(
  how: (
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ) => [model: string | SharedArrayBuffer, options: OpenOptions],
): PreparedModel {
  return {
    ...asItIs(''),
    opening: (given, own) => {
      const [model, options] = how(given, own)
      return { model, options, notes: {}, original: undefined }
    },
  }
}

/** By how much a float of the compiled form may differ, relative to the largest of its output. */
const tolerance = 1e-5

/** A request, and what it gave. */
interface TrialRun {
  readonly feeds: TrialFeeds
  readonly outputs: readonly MailedValue[]
}

/** Runs a model on the first made-up requests that it can run; none when there are no such. */
async function runOnMadeUp(
  { scheduler, session }: LoadedModel,
  optionalInputs: readonly string[],
): Promise<TrialRun[]> {
  const { inputs } = scheduler!.metadata
  const optional = new Set(
    inputs.flatMap(({ name }, index) => (optionalInputs.includes(name) ? [index] : [])),
  )
  for (const requests of madeUpFeeds(inputs, optional)) {
    const runs: TrialRun[] = []
    for (const feeds of requests) {
      const { error, outputs } = await session.runSample(feeds, true)
      if (error === null) runs.push({ feeds, outputs })
    }
    if (runs.length > 0) return runs
  }
  return []
}

/** Why the compiled form of a model is not that model, as far as its description and these runs show; `null` when they show nothing. */
async function differenceFrom(
  model: Pick<LoadedModel, 'scheduler'>,
  runs: readonly TrialRun[],
  compiled: LoadedModel,
): Promise<string | null> {
  const described = ({ scheduler }: Pick<LoadedModel, 'scheduler'>) => {
    const { inputs, outputs, unservableOutputs } = scheduler!.metadata
    return JSON.stringify([inputs, outputs, unservableOutputs])
  }
  if (described(model) !== described(compiled))
    return `it has other inputs or outputs: ${described(compiled)} instead of ${described(model)}`
  for (const { feeds, outputs } of runs) {
    const { error, outputs: again } = await compiled.session.runSample(feeds, true)
    if (error !== null) return `it fails where the model does not: ${error}`
    for (const [index, { name }] of compiled.scheduler!.metadata.outputs.entries()) {
      const { difference, reason } = compareEntry(name, outputs[index]!, again[index]!, tolerance)
      if (reason !== null) return `its output '${name}' differs by ${difference} of the largest value`
    }
  }
  return null
}

/** Of the recipes for rows of a model, the ones that are tried. */
const mostRecipes = 8

/**
 * Requests that a model may be able to run, of one row where it has rows: pairs of like ones, the likeliest first. None of a model with
 * an input that is no tensor.
 */
function* madeUpFeeds(
  inputs: readonly ValueMetadata[],
  optional: ReadonlySet<number>,
): Generator<readonly TrialFeeds[]> {
  if (!inputs.every(({ type }) => isElementType(type))) return
  const tensors = inputs as readonly TensorMetadata[]
  for (const { rowDims, draws } of rowRecipes(tensors, null, null, optional).slice(0, mostRecipes)) {
    const dims = rowDims.map((own, index) =>
      hasFixedFirst(tensors[index]!) ? [tensors[index]!.shape[0] as number, ...own] : own,
    )
    yield [0, 1].map((row) =>
      sampleRow(tensors, dims, draws, row).map(
        (feed, index) => feed && { ...feed, dims: asDeclared(tensors[index]!, feed.dims) },
      ),
    )
  }
}

function hasFixedFirst({ shape }: TensorMetadata): boolean {
  return typeof shape[0] === 'number'
}

/** Made-up rows have a dimension in front that counts them. */
function asDeclared(input: TensorMetadata, dims: readonly number[]): readonly number[] {
  return hasFixedFirst(input) || input.shape.length === 0 ? dims.slice(1) : dims
}

/** The configuration of a task, with the bytes that come over standard input in their places. */
async function completeConfig(
  { config, parts }: TrialTask,
  input: AsyncIterable<Uint8Array>,
): Promise<ResolvedConfig> {
  if (parts.length === 0) return config
  const buffers = parts.map((byteLength) => new SharedArrayBuffer(byteLength))
  let part = 0
  let filled = 0
  for await (const piece of input) {
    for (let at = 0; at < piece.byteLength;) {
      while (filled === parts[part]) [part, filled] = [part + 1, 0]
      const length = Math.min(piece.byteLength - at, parts[part]! - filled)
      new Uint8Array(buffers[part]!, filled, length).set(piece.subarray(at, at + length))
      at += length
      filled += length
    }
  }
  const external = config.sessionOptions.externalData as readonly { path: string }[] | undefined
  if (external === undefined) return { ...config, bytes: buffers[0]! }
  // Each in memory of its own, as they were given.
  const data = buffers.slice(-external.length).map((buffer) => new Uint8Array(buffer).slice())
  const externalData = external.map(({ path }, index) => ({ path, data: data[index]! }))
  const sessionOptions = { ...config.sessionOptions, externalData }
  return { ...config, sessionOptions, bytes: buffers.length > external.length ? buffers[0]! : null }
}
