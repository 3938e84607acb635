import { closeSync, existsSync, openSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, extname, join, resolve } from 'node:path'
import Table from 'cli-table3'
import { Command, Option } from 'commander'
import type { EngineOptions, ModelConfig, ModelOptions } from 'zerohop'
import {
  invalidArgument,
  oneLine,
  printJson,
  readModelFile,
  tellLine,
  usualExitCodes,
} from 'zerohop/internals'
import { budgetsOf, configJson, configText, type Load } from '../tune/configuration.ts'
import { watchMachineLoad } from '../tune/machine-load.ts'
import type { Measurement, TunedRow, TuneResult } from '../tune/outcome.ts'
import type { Goal, TuneSettings } from '../tune/tune-settings.ts'
import { tune as findBest } from '../tune/tuning.ts'
import { interruptedExitCode, interruptSignal } from './interrupt.ts'
import { withoutUndefined } from '../without-undefined.ts'
import { json, type NamedPlugin, plugin, providersOf } from './perf-engine-options.ts'
import { shape } from './perf-input-options.ts'
import { above, list, several, whole } from './perf-measure-options.ts'
import { TuneProgress } from './progress-line.ts'

/** Options of `zerohop tune`, in commander's form. */
interface TuneOptions {
  readonly latencyP99?: number
  readonly memory?: number
  readonly budget: number
  readonly concurrency?: number
  readonly requestRate?: number
  readonly batchSize: number
  readonly shape: readonly (readonly [name: string, dims: readonly number[]])[]
  readonly inputData: readonly string[]
  readonly instances?: readonly number[]
  readonly intraOpThreads?: readonly number[]
  readonly maxBatchSizes?: readonly number[]
  readonly maxQueueDelaysUs?: readonly number[]
  readonly maxBatchCosts?: readonly number[]
  readonly provider: string
  readonly plugin: readonly NamedPlugin[]
  readonly modelConfig: ModelOptions
  readonly engineOptions: EngineOptions
  readonly out?: string
  readonly format: 'json' | 'pbtxt'
  readonly state?: string
  readonly fresh: boolean
  readonly json: boolean
}

const bytesPerMegabyte = 1e6
/** Time reserved for the table, and for ending this process and the measuring ones. */
const endingMs = 400

const help = `
It measures how long batches take, discards poor candidates by simulation, and measures the best ones in
rounds, each configuration in its own process. Run nothing else meanwhile. Ctrl-C keeps the measurements,
and the same command continues from them.

Exit codes: 0 found; 1 nothing found, or the model cannot be loaded; 2 usage; 130 interrupted.`

/** `zerohop tune model.onnx`: finds the configuration with the highest throughput on this machine. */
export const tune = addTuneOptions(new Command('tune'))
  .description(
    'find the instances, threads, batch size and delay with the highest throughput on this machine, within bounds of latency and memory',
  )
  .argument('<model>', 'path of an .onnx or .ort file')
  .addHelpText('after', help)
  .action(async (path: string, options: TuneOptions, command: Command) => {
    const { format, out: output = format === 'json' ? 'zerohop-config.json' : 'config.pbtxt' } = options
    if (format === 'pbtxt' && configText('', sample, options.provider) === null)
      command.error(`error: --format pbtxt cannot express --provider ${options.provider}: use --format json`)
    await readModelFile(path)
    const settings = settingsOf(path, options, output)
    checkFiles({ model: path, output, state: settings.statePath })
    const { signal, release } = interruptSignal()
    const noteOnLoad = watchMachineLoad()
    const progress = new TuneProgress(options.budget, process.stderr)
    const result = await findBest(settings, progress, signal).finally(() => {
      progress.stop()
      release()
    })
    const load = noteOnLoad()
    const told = load === null ? result : { ...result, notes: [...result.notes, load] }
    if (options.json) printJson(told)
    else process.stdout.write(tuneText(told))
    finish(result, settings, output, options)
  })

/** Adds the options to a command. */
function addTuneOptions(command: Command): Command {
  return command
    .optionsGroup('Goal:')
    .option('--latency-p99 <ms>', 'highest p99 latency', above(0))
    .option('--memory <MB>', 'most memory of the process, in megabytes', above(0))
    .addOption(
      new Option(
        '--concurrency <callers>',
        'tune for this many concurrent callers (default: two full batches per instance)',
      )
        .argParser(whole(1))
        .conflicts('requestRate'),
    )
    .option(
      '--request-rate <requests>',
      'tune for this many requests per second at random times: lowest p99 that keeps up',
      above(0),
    )
    .option('--budget <seconds>', 'longest duration in total', above(0), 120)
    .optionsGroup('Requests:')
    .option('-b, --batch-size <rows>', 'rows per request', whole(1), 1)
    .addOption(several('--shape <name:dims>', 'dims of an input, without the batch, as IDS:1,128', shape))
    .addOption(
      several(
        '--input-data <what>',
        'data of requests: random, zero, NAME:zero for one input, a JSON file or a folder, as in zerohop perf',
        String,
        'random',
      ),
    )
    .optionsGroup('Search space:')
    .option('--instances <counts>', 'numbers of instances (default: 1, 2, 4 ... up to the cores)', list(1))
    .option(
      '--intra-op-threads <counts>',
      'intra-op threads per instance (default: as many as the cores allow)',
      list(1),
    )
    .option(
      '--max-batch-sizes <rows>',
      'rows per run (default: 1, 2, 4 ... 128); if given, rows count as independent',
      list(1),
    )
    .option(
      '--max-queue-delays-us <list>',
      'waits for a batch to grow (default: 0 and parts of a run time)',
      amounts,
    )
    .option(
      '--max-batch-costs <list>',
      'limits of batch costs, 0 for none; needs dynamicBatching.cost in --model-config (default: half, once and twice its maxBatchCost, or 1024, 4096, 16384; and none)',
      amounts,
    )
    .optionsGroup('Fixed settings:')
    .option('--provider <kind>', 'auto, cpu, cuda, webgpu, or the name of a --plugin', 'auto')
    .addOption(several('--plugin <name=library>', 'provider plugin', plugin))
    .addOption(
      new Option('--model-config <json>', 'other options of engine.load(), as JSON or a JSON file')
        .argParser(json)
        .default({}, 'none'),
    )
    .addOption(
      new Option('--engine-options <json>', 'options of the engine, as JSON or a JSON file')
        .argParser(json)
        .default({}, 'none'),
    )
    .optionsGroup('Results:')
    .option(
      '-o, --out <file>',
      'file for the configuration found (default: zerohop-config.json or config.pbtxt)',
    )
    .addOption(
      new Option('--format <format>', 'for engine.load() or for a model repository')
        .choices(['json', 'pbtxt'])
        .default('json'),
    )
    .option('--state <file>', 'file that keeps measurements for the next call (default: beside the output)')
    .option('--fresh', 'discard earlier measurements', false)
    .option('-j, --json', 'print JSON', false)
}

function amounts(text: string): number[] {
  return text.split(',').map(above(0, true))
}

const sample = { instances: 1, threads: 1, maxBatchSize: 0, maxQueueDelayMs: 0 }

function settingsOf(path: string, options: TuneOptions, output: string): TuneSettings {
  const { memory, inputData, maxBatchCosts, modelConfig } = options
  const { path: _, ...others } = modelConfig as ModelConfig // the path of another call's file
  for (const name of ['autoTune', 'sequence'] as const) {
    if (others[name])
      throw invalidArgument(
        `--model-config ${name}`,
        name === 'sequence'
          ? 'none, because tune generates no sequences'
          : 'none, because it changes the configuration while tune measures it',
        others[name],
      )
  }
  if (maxBatchCosts !== undefined && budgetsOf(maxBatchCosts, others).length === 0) {
    throw invalidArgument('--max-batch-costs', 'dynamicBatching.cost in --model-config', maxBatchCosts)
  }
  return {
    path,
    options: others,
    kind: options.provider,
    measuring: {
      requests: {
        rows: options.batchSize,
        shapes: options.shape,
        inputData: inputData.length === 0 ? ['random'] : inputData,
      },
      engine: { ...options.engineOptions, ...withoutUndefined({ providers: providersOf(options.plugin) }) },
    },
    space: {
      instances: options.instances,
      threads: options.intraOpThreads,
      batchSizes: options.maxBatchSizes,
      delaysMs: options.maxQueueDelaysUs?.map((us) => us / 1000),
      batchCosts: budgetsOf(maxBatchCosts, others),
    },
    concurrency: options.concurrency,
    rate: options.requestRate,
    p99Ms: options.latencyP99,
    memoryBytes: memory === undefined ? undefined : memory * bytesPerMegabyte,
    budgetMs: options.budget * 1000 - endingMs,
    startedAtMs: 0, // this process's start
    statePath: options.state ?? join(dirname(output), `${basename(output, extname(output))}.tune-state.json`),
    fresh: options.fresh,
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
        ? `interrupted; the measurements are in ${settings.statePath}, and the same command continues from them`
        : 'interrupted; nothing was measured',
    )
    process.exitCode = interruptedExitCode
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
function checkFiles({ model, output, state }: TuneFiles): void {
  for (const path of [output, state])
    if (isSame(path, model))
      throw invalidArgument(path === output ? 'output' : 'state', 'a file other than the model', path)
  if (isSame(output, state)) throw invalidArgument('state', 'a file other than the output', state)
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

const mostRows = 10
const head = [
  'instances',
  'threads',
  'batch',
  'delay ms',
  'load',
  'rows/s',
  'to default',
  'spread',
  'p50 ms',
  'p99 ms',
  'memory MB',
  'rounds',
  '',
]

/**
 * A table of the best configurations and the default. `spread` is half the range of the rounds, relative to
 * their median.
 */
function tuneText({ best, isConfirmed, rows, notes, end, seconds, judgedBy }: TuneResult): string {
  const isEmpty = rows.every(({ measured, failure }) => measured === null && failure === null)
  const shown = rows.slice(0, mostRows)
  const its = rows.find(({ isDefault, measured }) => isDefault && measured !== null)
  if (its !== undefined && !shown.includes(its)) shown.push(its)
  const table = new Table({
    head,
    style: { head: [], border: [], compact: true },
    colAligns: head.map((name) => (name === '' || name === 'load' ? 'left' : 'right')),
  })
  for (const row of shown) table.push(cells(row, row === best, judgedBy))
  const decided =
    best === null || isConfirmed
      ? 'further rounds would not change the result'
      : 'further rounds of these candidates would not change the result'
  const why = { decided, budget: 'the time budget is used up', interrupted: 'interrupted' }[end]
  return [
    ...(isEmpty ? [] : [table.toString()]),
    ...judgedText(judgedBy, rows),
    ...notes.map(oneLine),
    `${seconds.toFixed(1)} s: ${why}.`,
    '',
  ].join('\n')
}

function cells(row: TunedRow, isBest: boolean, judgedBy: Goal): string[] {
  const { measured, toDefault, spread, failure } = row
  const { configuration, load } = row.candidate
  const { instances, threads, maxBatchSize, maxQueueDelayMs, maxBatchCost } = configuration
  const remarks = [
    isBest && 'best',
    row.isDefault && 'default',
    failure !== null
      ? oneLine(failure).slice(0, 60)
      : !row.isKept && measured !== null && overText(row, measured, judgedBy),
  ].filter((remark) => remark !== false)
  const figures =
    measured === null
      ? ['', '', '', '', '', '']
      : [
          figure(measured.rowsPerSecond),
          toDefault === null ? '' : `${toDefault.toFixed(2)}x`,
          spread === null ? '' : `±${(spread * 100).toFixed(0)} %`,
          figure(measured.p50Ms),
          figure(measured.p99Ms),
          (measured.memoryBytes / 1e6).toFixed(0),
        ]
  const batch = maxBatchCost === undefined ? maxBatchSize : `${maxBatchSize}, cost ${maxBatchCost}`
  return [
    ...[instances, threads, batch, maxQueueDelayMs].map(String),
    loadText(load),
    ...figures,
    String(row.rounds),
    remarks.join(', '),
  ]
}

/** Why a row misses its limits, as its medians may be within them. */
function overText(
  { rounds, roundsOver, worstP99Ms }: TunedRow,
  measured: Measurement,
  { p99Ms = Infinity, memoryBytes = Infinity }: Goal,
): string {
  const reasons = [
    `missed a bound in ${roundsOver} of ${rounds} ${rounds === 1 ? 'round' : 'rounds'}`,
    worstP99Ms! > p99Ms && `worst p99 ${figure(worstP99Ms!)} ms`,
    measured.memoryBytes > memoryBytes && 'memory',
  ]
  return reasons.filter((reason) => reason !== false).join(', ')
}

function judgedText({ p99Ms, memoryBytes }: Goal, rows: readonly TunedRow[]): string[] {
  const bounds = [
    p99Ms !== undefined && `a p99 of ${figure(p99Ms)} ms`,
    memoryBytes !== undefined && `${(memoryBytes / 1e6).toFixed(0)} MB`,
  ].filter((bound) => bound !== false)
  if (bounds.length === 0 || rows.every(({ measured }) => measured === null)) return []
  return [
    `a configuration misses a bound if it exceeds ${bounds.join(' or ')} in a quarter of its rounds; the table shows medians`,
  ]
}

/** How the best was measured, and its figures. This is not in the file, which has no field for it. */
function bestText({ candidate: { load }, measured }: TunedRow): string {
  const { rowsPerSecond, p99Ms } = measured!
  return `With ${loadText(load)} it reached ${figure(rowsPerSecond)} rows/s and a p99 of ${figure(p99Ms)} ms.`
}

function loadText({ rate, concurrency }: Load): string {
  return rate === undefined
    ? `${concurrency} ${concurrency === 1 ? 'caller' : 'callers'}`
    : `${rate} requests/s`
}

/** A number with three significant digits. */
function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}
