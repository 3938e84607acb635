import { closeSync, existsSync, openSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { Command } from 'commander'
import type { EngineOptions, ModelConfig } from 'zerohop'
import { invalidArgument, printJson, readModelFile, tellLine, usualExitCodes } from 'zerohop/internals'
import { budgetsOf, configJson, configText } from '../tune/configuration.ts'
import type { TuneResult } from '../tune/outcome.ts'
import type { TuneSettings } from '../tune/tune-settings.ts'
import { tune as findBest } from '../tune/tuning.ts'
import { interruptSignal } from './interrupt.ts'
import { TuneProgress } from './progress-line.ts'
import { addTuneOptions, type TuneOptions } from './tune-options.ts'
import { bestText, tuneText } from './tune-text.ts'

const bytesPerMegabyte = 1e6
/** Time reserved for the table, and for ending this process and the measuring ones. */
const endingMs = 400
/** The exit code that shells give an interrupted program. */
const interruptedCode = 130

const help = `
It calibrates what batches take, prunes with a simulation of the queue, and confirms the best by measurement, each configuration in
a process of its own, in rounds. Leave the machine alone meanwhile. Ctrl-C keeps what was measured: the same command goes on from there.

Exit codes: 0 a configuration was found; 1 none, or the model cannot be loaded; 2 the command line is not as it has to be; 130 interrupted.`

/** `zerohop tune model.onnx`: finds the configuration with the highest throughput on this machine. */
export const tune = addTuneOptions(new Command('tune'))
  .description(
    'find the instances, threads, batch size and delay with which a model serves most on this machine, within bounds of latency and memory',
  )
  .argument('<model>', 'path of an .onnx or .ort file')
  .addHelpText('after', help)
  .action(async (path: string, options: TuneOptions, command: Command) => {
    const { format, out: output = format === 'json' ? 'zerohop-config.json' : 'config.pbtxt' } = options
    if (format === 'pbtxt' && configText('', sample, options.provider) === null)
      command.error(`error: --format pbtxt has no word for --provider ${options.provider}; take json`)
    await readModelFile(path)
    const settings = settingsOf(path, options, output)
    checkFiles({ model: path, output, state: settings.statePath })
    const { signal, release } = interruptSignal()
    const progress = new TuneProgress(options.budget, process.stderr)
    const result = await findBest(settings, progress, signal).finally(() => {
      progress.stop()
      release()
    })
    if (options.json) printJson(result)
    else process.stdout.write(tuneText(result))
    finish(result, settings, output, options)
  })

const sample = { instances: 1, threads: 1, maxBatchSize: 0, maxQueueDelayMs: 0 }

function settingsOf(path: string, options: TuneOptions, output: string): TuneSettings {
  const {
    latencyP99,
    memory,
    budget,
    concurrency,
    requestRate: rate,
    batchSize,
    shape,
    inputData,
    instances,
    intraOpThreads: threads,
    maxBatchSizes,
    maxQueueDelaysUs,
    maxBatchCosts,
    provider,
    plugin,
    modelConfig,
    engineOptions,
    state,
    fresh,
  } = options
  const { path: _, ...others } = modelConfig as ModelConfig // the path of another call's file
  for (const name of ['autoTune', 'sequence'] as const) {
    if (others[name])
      throw invalidArgument(
        `--model-config ${name}`,
        name === 'sequence'
          ? 'none, as requests of sequences are not made up'
          : 'none, as it changes what is measured',
        others[name],
      )
  }
  if (maxBatchCosts !== undefined && budgetsOf(maxBatchCosts, others).length === 0) {
    throw invalidArgument(
      '--max-batch-costs',
      '--model-config with dynamicBatching.cost beside it',
      maxBatchCosts,
    )
  }
  const engine: EngineOptions =
    plugin.length === 0
      ? engineOptions
      : {
          ...engineOptions,
          providers: Object.fromEntries(plugin.map(({ name, library }) => [name, { library }])),
        }
  return {
    path,
    options: others,
    kind: provider,
    measuring: {
      requests: {
        rows: batchSize,
        shapes: shape,
        inputData: inputData.length === 0 ? ['random'] : inputData,
      },
      engine,
    },
    space: {
      instances,
      threads,
      batchSizes: maxBatchSizes,
      delaysMs: maxQueueDelaysUs?.map((us) => us / 1000),
      batchCosts: budgetsOf(maxBatchCosts, others),
    },
    concurrency,
    rate,
    p99Ms: latencyP99,
    memoryBytes: memory === undefined ? undefined : memory * bytesPerMegabyte,
    budgetMs: budget * 1000 - endingMs,
    startedAtMs: 0, // this process's start
    statePath: state ?? join(dirname(output), `${basename(output, extname(output))}.tune-state.json`),
    fresh,
  }
}

/** Writes the result, or says why there is none. */
function finish(
  { best, end, reason, kind }: TuneResult,
  settings: TuneSettings,
  output: string,
  { format, json }: TuneOptions,
): void {
  if (end === 'interrupted') {
    tellLine(
      existsSync(settings.statePath)
        ? `interrupted; what was measured is in ${settings.statePath}, and the same command goes on from there`
        : 'interrupted; nothing was measured',
    )
    process.exitCode = interruptedCode
    return
  }
  if (best === null) {
    tellLine(reason!)
    process.exitCode = usualExitCodes.wrong
    return
  }
  const { configuration } = best.candidate
  const name = basename(settings.path, extname(settings.path))
  writeFileSync(
    output,
    format === 'json' ? configJson(configuration, settings, kind) : configText(name, configuration, kind)!,
  )
  if (!json) process.stdout.write(`Written to ${output}. ${bestText(best)}\n`)
}

/** The files of a call. */
interface TuneFiles {
  readonly model: string
  readonly output: string
  readonly state: string
}

/**
 * Checks before measuring that the result can be written, and overwrites none of the other files.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if two paths are the same file; errors of opening them.
 */
export function checkFiles({ model, output, state }: TuneFiles): void {
  for (const path of [output, state])
    if (isSame(path, model))
      throw invalidArgument(path === output ? 'output' : 'state', 'another file than the model', path)
  if (isSame(output, state)) throw invalidArgument('state', 'another file than the output', state)
  checkWritable(output)
  checkWritable(state)
}

function isSame(one: string, other: string): boolean {
  const real = (path: string) => (existsSync(path) ? realpathSync(path) : resolve(path))
  return real(one) === real(other)
}

function checkWritable(path: string): void {
  const isNew = !existsSync(path)
  closeSync(openSync(path, 'a'))
  if (isNew) rmSync(path)
}
