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
import type { TrialFeeds } from '../../models/row-check/trial-feeds.ts'
import type { MailedValue } from '../../tensor/values.ts'
import { rowRecipes, sampleRow } from '../../models/row-check/made-up-rows.ts'
import type { TensorMetadata, ValueMetadata } from '../../tensor/metadata.ts'
import { isElementType } from '../../tensor/tensor.ts'

/**
 * The program of a child process that tries one model. The model may end the process in any way; the process also ends
 * when its parent does.
 */
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// Signals reach the whole process group, and the parent may be about to finish its work.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.umask(0o077)
for (const giveWay of [
  () => setPriority(constants.priority.PRIORITY_BELOW_NORMAL), // yield to processes that serve
  () => writeFileSync('/proc/self/oom_score_adj', '1000'), // if memory is short, the system should kill this process and not its parent
]) {
  try {
    giveWay()
  } catch {
    // keep the default, then
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

/** Loads a model as the application would, then opens and runs its compiled form. */
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

  /** @param compiling called when the model itself has been loaded and run, before its compiled form is tried. */
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
    if (folder === null) return { ...found, reason: 'it was loaded in a separate process first' }
    if (writing !== loaded)
      return { ...found, reason: `its compiled form cannot be written: ${(writing as Error).message}` }
    compiling()
    const wrong = await this.#tryCompiled(join(folder, graphFile), loaded, runs)
    if (wrong !== null) return { ...found, reason: `its compiled form is not used: ${wrong}` }
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

  /** Why a compiled form is wrong; `null` if it is right. */
  async #tryCompiled(path: string, model: LoadedModel, runs: readonly TrialRun[]): Promise<string | null> {
    if (!existsSync(path)) return 'ONNX Runtime did not write it'
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
    const loadFor = { prepared, changed: () => {} }
    const model = new LoadedModel(this.#task.model, config, this.#resources, loadFor)
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

/** Allowed difference of a float of the compiled form, relative to the largest value of its output. */
const tolerance = 1e-5

/** A request, and its outputs. */
interface TrialRun {
  readonly feeds: TrialFeeds
  readonly outputs: readonly MailedValue[]
}

/** Runs a model on the first generated requests that it accepts; none if it accepts none. */
async function runOnMadeUp(
  { served, session }: LoadedModel,
  optionalInputs: readonly string[],
): Promise<TrialRun[]> {
  const { inputs } = served!.scheduler.metadata
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

/** How the compiled form differs from the model, by its description and these runs; `null` if no difference shows. */
async function differenceFrom(
  model: LoadedModel,
  runs: readonly TrialRun[],
  compiled: LoadedModel,
): Promise<string | null> {
  const described = ({ served }: LoadedModel) => {
    const { inputs, outputs, unservableOutputs } = served!.scheduler.metadata
    return JSON.stringify([inputs, outputs, unservableOutputs])
  }
  if (described(model) !== described(compiled))
    return `it has other inputs or outputs: ${described(compiled)} instead of ${described(model)}`
  for (const { feeds, outputs } of runs) {
    const { error, outputs: again } = await compiled.session.runSample(feeds, true)
    if (error !== null) return `it fails where the model does not: ${error}`
    for (const [index, { name }] of compiled.served!.scheduler.metadata.outputs.entries()) {
      const { difference, reason } = compareEntry(name, outputs[index]!, again[index]!, tolerance)
      if (reason !== null) return `its output '${name}' differs by ${difference} of the largest value`
    }
  }
  return null
}

/** Most recipes for rows that are tried. */
const mostRecipes = 8

/**
 * Requests that a model may accept, of one row if it has rows: in pairs of the same form, the likeliest first. None for
 * a model with an input that is not a tensor.
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

/** Generated rows have a batch dimension in front. */
function asDeclared(input: TensorMetadata, dims: readonly number[]): readonly number[] {
  return hasFixedFirst(input) || input.shape.length === 0 ? dims.slice(1) : dims
}

/** The configuration of a task, with the bytes from standard input filled in. */
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
  // Each in memory of its own, as the caller gave them.
  const data = buffers.slice(-external.length).map((buffer) => new Uint8Array(buffer).slice())
  const externalData = external.map(({ path }, index) => ({ path, data: data[index]! }))
  const sessionOptions = { ...config.sessionOptions, externalData }
  return { ...config, sessionOptions, bytes: buffers.length > external.length ? buffers[0]! : null }
}
