import { Command } from 'commander'
import { libraryVersion, invalidArgument, tellLine } from 'zerohop/internals'
import { InferenceError, type Model } from 'zerohop'
import { isMadeUp } from '../perf/input/generated-data.ts'
import { sampleSource } from '../perf/input/sample-source.ts'
import { openTarget, probe } from '../perf/open-target.ts'
import type { PerfSettings } from '../perf/perf-settings.ts'
import { interruptedExitCode, interruptSignal } from './interrupt.ts'
import { addEngineOptions, engineOptionsOf, modelOptionsOf } from './perf-engine-options.ts'
import { inputComparisons, rowChecks } from './perf-check-rows.ts'
import { scenarios } from './perf-scenario.ts'
import {
  type PerfContext,
  type PerfExtension,
  type PerfOptions,
  refuseUnheard,
  settingsShown,
} from './perf-extension.ts'
import { addInputOptions, inputSettings, sequencesOf } from './perf-input-options.ts'
import { ProfileExport } from '../perf/report/profile-export.ts'
import { leftOutText } from './perf-left-out.ts'
import { measureLevels } from './perf-levels.ts'
import { addMeasureOptions, measureSettings } from './perf-measure-options.ts'
import { addOutputOptions, refuseSharedFiles, writeOutputs } from './perf-output.ts'
import { perfReplay } from './perf-replay.ts'

/** The other measurements, with their options. */
const extensions = new Map<PerfExtension, readonly string[]>()

/** The options that `--help` shows; `--help-all` shows the others, too. */
const usualOptions = new Set(
  (
    '--model-name --batch-size --shape --input-data --concurrency-range --request-rate-range ' +
    '--measurement-interval --stability-percentage --latency-threshold --request-count ' +
    '--instances --provider --max-batch-size --max-queue-delay-us --model-config --engine-options ' +
    '--verbose --latency-report-file --report --json --scenario --replay --check-rows --inputs --version --help-all'
  ).split(' '),
)

/** Those of them that measure something else than levels of load. */
const otherMeasurements = new Set(['--scenario', '--replay', '--check-rows', '--inputs'])

/** `zerohop perf -m model.onnx`: measures a model under load. */
export const perf = build()

function build(): Command {
  const command = new Command('perf')
    .description('measure throughput and latency of a model in this process, as perf_analyzer does')
    .argument('[model]')
    .optionsGroup('Model:')
    .option('-m, --model-name <path>', "a model file, a model's folder, or a repository's model")
    .option('-x, --model-version <version>', 'version in the repository (default: the newest that is served)')
    .option('--model-repository <folder>', "the model's repository")
  addInputOptions(command)
  addMeasureOptions(command)
  addEngineOptions(command)
  addOutputOptions(command)
  for (const extension of [scenarios, perfReplay, rowChecks, inputComparisons]) {
    const before = command.options.length
    extension.addOptions(command)
    const own = command.options.slice(before)
    extensions.set(
      extension,
      own.map((option) => option.attributeName()),
    )
  }
  command
    .optionsGroup('Options:')
    .version(libraryVersion, '--version', 'print the version')
    .option('--help-all', "show all options, and which of perf_analyzer's are missing")
    .addHelpText(
      'after',
      '\nExit codes: 0 done; 1 answers differ; 2 unstable or invalid; 3 usage; 99 other; 130 interrupted.',
    )
  const groups = command.options.map((option) => option.helpGroupHeading!)
  for (const option of command.options) {
    option.hideHelp(!usualOptions.has(option.long!))
    if (otherMeasurements.has(option.long!)) option.helpGroup('Instead of levels of load:')
  }
  command.on('option:help-all', () => {
    command.options.forEach((option, index) => option.hideHelp(false).helpGroup(groups[index]!))
    command.addHelpText('after', () => `\n${leftOutText()}`).help()
  })
  return command.action((model: string | undefined, { modelName }: { modelName?: string }) => {
    if (model === undefined && modelName === undefined)
      command.error('error: no model given: name one, as in `zerohop perf model.onnx`')
    if (model !== undefined && modelName !== undefined)
      command.error("error: two models given: omit the argument or option '-m, --model-name <path>'")
    if (model !== undefined) command.setOptionValueWithSource('modelName', model, 'cli')
    return run(command.opts<PerfOptions>(), command)
  })
}

async function run(options: PerfOptions, command: Command): Promise<void> {
  const settings = measureSettings(options, null, command)
  const [measuring, another] = [...extensions.keys()].filter(
    // In a scenario, --inputs is a setting of the scenario.
    ({ leader }) => options[leader] !== undefined && !(leader === 'inputs' && options.scenario !== undefined),
  )
  if (another !== undefined)
    command.error(
      'error: --scenario, --replay, --check-rows and --inputs exclude each other, except --scenario with --inputs: give one',
    )
  refuseUnheard(command, extensions)
  refuseSharedFiles(options, command)
  const { signal, release } = interruptSignal()
  try {
    await measureModel(options, settings, measuring, signal, command)
  } catch (error) {
    if (error !== signal.reason || !signal.aborted) throw withHint(error, options.inputData)
    tellLine('interrupted before the first request')
    process.exitCode = interruptedExitCode
  } finally {
    release()
  }
}

/** Ends the program if a provider was requested but the model runs on the CPU. */
function checkProvider(provider: string | undefined, { metadata: { executionProviders } }: Model): void {
  const asked = executionProviders.find(({ name }) => name === provider)
  if (asked?.used === false)
    throw invalidArgument('--provider', 'a provider that can run the model', provider, {
      hint: `${provider} is not used: ${asked.reason}`,
    })
}

/**
 * Adds a hint: generated data does not suit every model. Indices may be too large, texts may be no numbers.
 */
function withHint(error: unknown, inputData: readonly string[]): unknown {
  if (inputData.every(isMadeUp) && error instanceof InferenceError && error.code === 'ERR_EXECUTION')
    error.message += ' The requests have generated data: give valid data by --input-data or --string-data.'
  return error
}

async function measureModel(
  options: PerfOptions,
  measured: PerfSettings,
  measuring: PerfExtension | undefined,
  signal: AbortSignal,
  command: Command,
): Promise<void> {
  const opened = await openTarget({
    model: options.modelName,
    repository: options.modelRepository,
    version: options.modelVersion,
    engine: engineOptionsOf(options),
    config: (before) => modelOptionsOf(options, before),
    signal,
  })
  const { model, machine, composingModels } = opened
  try {
    signal.throwIfAborted()
    checkProvider(options.provider, model)
    const settings = { ...measured, sequences: sequencesOf(options, opened, measured.load) }
    const source =
      (await measuring?.source?.(options, opened, settings)) ??
      (await sampleSource(model.metadata, inputSettings(options, opened, settings.seed)))
    const target = { model, source, machine, composingModels }
    const { settings: shown, given } = settingsShown(command)
    const context: PerfContext = {
      options,
      opened,
      target,
      settings,
      shown,
      signal,
      profile: options.profileExportFile === undefined ? null : new ProfileExport(),
      print: options.json === true ? () => {} : (text) => void process.stdout.write(text),
    }
    if (measuring === undefined) await probe(target, signal)
    const { result, exitCode } = await (measuring?.measure ?? measureLevels)(context)
    process.exitCode ??= exitCode // unless writing has failed
    await writeOutputs({ ...result, given }, context)
  } finally {
    await opened.engine.destroy()
  }
}
