import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { availableMemory } from '../../base/available-resources.ts'
import { closeFiles } from '../../models/compiled-models/entry.ts'
import type { CompiledForm, TrialTask, TrialWord } from '../../models/compiled-models/model-trial.ts'
import { compilingInto, graphFile, ofCompiled } from '../../models/compiled-models/compiled-form.ts'
import { compareEntry } from '../../models/row-check/compare-rows.ts'
import { rowRecipes, sampleRow } from '../../models/row-check/made-up-rows.ts'
import type { TrialFeeds } from '../../models/row-check/trial-feeds.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { OpenOptions } from '../../options/session-options.ts'
import type { SampleRun } from '../../run/executors/executor.ts'
import type { ModelMetadata, TensorMetadata, ValueMetadata } from '../../tensor/metadata.ts'
import { byteLengthOf, elementCount, isElementType, mostTensorBytes } from '../../tensor/tensor.ts'
import type { MailedValue } from '../../tensor/values.ts'

/** A session of the model that is tried, or of its compiled form. */
export interface TrialSession {
  /** Its inputs and outputs, with the shapes that the configuration gives them. */
  readonly values: Pick<ModelMetadata, 'inputs' | 'outputs' | 'unservableOutputs'>
  runSample(feeds: TrialFeeds): Promise<SampleRun>
  close(): Promise<void>
}

/** Changes what a session is opened from: the model, and its options. */
type OpeningOf = (
  model: string | SharedArrayBuffer,
  options: OpenOptions,
) => [model: string | SharedArrayBuffer, options: OpenOptions]

/** Opens a session in this process; rejects with ONNX Runtime's message. */
type OpenForTrial = (task: TrialTask, config: ResolvedConfig, how: OpeningOf) => Promise<TrialSession>

const asItIs: OpeningOf = (model, options) => [model, options]
const say = (word: TrialWord): void => void process.send!(word)

/**
 * What a child process does that tries one model: it loads the model, which writes its compiled form if it may have one, runs both
 * and says what came of it. The model may end the process in any way; the process also ends when its parent does.
 */
export function tryModels(open: OpenForTrial): void {
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  // Signals reach the whole process group, and the parent may be about to finish its work.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  process.umask(0o077)
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000') // if memory is short, the system should kill this process and not its parent
  } catch {
    // keep the default, then
  }
  process.once('message', (task: TrialTask) => void tryModel(task, open).then(say))
  say({ type: 'started' })
}

async function tryModel(task: TrialTask, open: OpenForTrial): Promise<TrialWord> {
  try {
    const config = await completeConfig(task, process.stdin)
    const written = task.folder === null ? noForm : await writing(task, config, task.folder, open)
    say({ type: 'stage', stage: 'model' })
    const session = 'reason' in written ? await open(task, config, asItIs) : written
    const { optionalInputs, checkRows, warmup } = config
    const mayRun = checkRows || warmup.madeUp !== null
    const requests = mayRun ? madeUpRequests(session.values.inputs, optionalInputs) : []
    const runs = await runsOf(session, requests)
    if (task.folder === null) return { type: 'tried', error: null, form: null }
    await session.close()
    say({ type: 'stage', stage: 'comparing' })
    const form =
      'reason' in written ? written : await compared(task, config, task.folder, session, runs, open)
    return { type: 'tried', error: null, form }
  } catch (error) {
    return { type: 'tried', error: (error as Error).message, form: null }
  }
}

const none = (reason: string): CompiledForm => ({ files: null, reason, wasRun: false })
const noForm = none('')

/** A session of the model that writes its compiled form as it opens, which takes no longer; or why there is none. */
async function writing(
  task: TrialTask,
  config: ResolvedConfig,
  folder: string,
  open: OpenForTrial,
): Promise<TrialSession | CompiledForm> {
  say({ type: 'stage', stage: 'writing' })
  try {
    return await open(task, config, (model, options) => [model, compilingInto(folder, options)])
  } catch (error) {
    return none(`its compiled form cannot be written: ${(error as Error).message}`)
  }
}

/** A request, and its outputs. */
interface TrialRun {
  readonly feeds: TrialFeeds
  readonly outputs: readonly MailedValue[]
}

/** Longer runs are not repeated. */
const repeatedUpToMs = 20

/** Runs the first of the requests that the model accepts, and those of its form that are left; none if it accepts none. */
async function runsOf(
  session: TrialSession,
  requests: Iterable<readonly TrialFeeds[]>,
): Promise<readonly TrialRun[]> {
  const runs: TrialRun[] = []
  for (const form of requests) {
    for (const feeds of form) {
      const startMs = performance.now()
      const { error, outputs } = await session.runSample(feeds)
      if (error === null) runs.push({ feeds, outputs })
      if (performance.now() - startMs > repeatedUpToMs) break
    }
    if (runs.length > 0) break
  }
  return runs
}

/** The compiled form that a session has written, if it has the same outputs as the model. */
async function compared(
  task: TrialTask,
  config: ResolvedConfig,
  folder: string,
  session: TrialSession,
  runs: readonly TrialRun[],
  open: OpenForTrial,
): Promise<CompiledForm> {
  const path = join(folder, graphFile)
  if (!existsSync(path)) return none('its compiled form is not used: ONNX Runtime did not write it')
  try {
    const compiled = await open(task, config, (_, options) => [path, ofCompiled(options)])
    const difference = await differenceFrom(session, runs, compiled)
    await compiled.close()
    if (difference !== null) return none(`its compiled form is not used: ${difference}`)
  } catch (error) {
    return none(`its compiled form is not used: ${(error as Error).message}`)
  }
  try {
    const inRuns = `compared in ${runs.length} ${runs.length === 1 ? 'run' : 'runs'}`
    const how = runs.length === 0 ? 'not compared, as it ran on no generated values' : inRuns
    const reason = `compiled for this machine; its outputs were ${how}`
    return { files: await closeFiles(folder), reason, wasRun: runs.length > 0 }
  } catch (error) {
    return none(`its compiled form cannot be kept: ${(error as Error).message}`)
  }
}

/** Allowed difference of a float of the compiled form, relative to the largest value of its output. */
const tolerance = 1e-5

/** How the compiled form differs from the model, by its description and these runs; `null` if no difference shows. */
async function differenceFrom(
  model: TrialSession,
  runs: readonly TrialRun[],
  compiled: TrialSession,
): Promise<string | null> {
  const described = ({ values: { inputs, outputs, unservableOutputs } }: TrialSession) =>
    JSON.stringify([inputs, outputs, unservableOutputs])
  if (described(model) !== described(compiled))
    return `it has other inputs or outputs: ${described(compiled)} instead of ${described(model)}`
  for (const { feeds, outputs } of runs) {
    const { error, outputs: again } = await compiled.runSample(feeds)
    if (error !== null) return `it fails where the model does not: ${error}`
    for (const [index, { name }] of compiled.values.outputs.entries()) {
      const { difference, reason } = compareEntry(name, outputs[index]!, again[index]!, tolerance)
      if (reason !== null) return `its output '${name}' differs by ${difference} of the largest value`
    }
  }
  return null
}

/** Most recipes for rows that are tried. */
const mostRecipes = 8
/** A request of more bytes is made up and run once. */
const repeatedUpToBytes = 2 ** 26
/** A request of more bytes is not made up: it is held several times. */
const mostBytes = () => Math.min(mostTensorBytes, availableMemory().usableBytes / 4)

/**
 * Requests that a model may accept, of one row if it has rows: in pairs of the same form, the likeliest first. None for
 * a model with an input that is not a tensor.
 */
function* madeUpRequests(
  inputs: readonly ValueMetadata[],
  optionalInputs: readonly string[],
): Generator<readonly TrialFeeds[]> {
  if (!inputs.every(({ type }) => isElementType(type))) return
  const tensors = inputs as readonly TensorMetadata[]
  for (const { rowDims, draws } of rowRecipes(tensors, null, null, optionalInputs).slice(0, mostRecipes)) {
    const dims = rowDims.map((own, index) =>
      hasFixedFirst(tensors[index]!) ? [tensors[index]!.shape[0] as number, ...own] : own,
    )
    const bytes = dims.reduce(
      (sum, own, index) => sum + byteLengthOf(tensors[index]!.type, elementCount(own)),
      0,
    )
    const isLarge = bytes > repeatedUpToBytes
    if (isLarge && bytes > mostBytes()) continue
    yield (isLarge ? [0] : [0, 1]).map((row) =>
      sampleRow(tensors, { rowDims: dims, draws }, row).map(
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
