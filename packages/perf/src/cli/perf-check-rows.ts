import { type Command, Option } from 'commander'
import { mulberry32, tellLine } from 'zerohop/internals'
import { accuracyText, checkRows, defaultTolerance } from '../perf/accuracy/check-rows.ts'
import { UniqueSamples } from '../perf/input/generated-data.ts'
import { SampleCycle, type SampleSource } from '../perf/input/sample-source.ts'
import { inputsText } from '../perf/report/console-report.ts'
import type { InputLevels, PerfResult } from '../perf/result-schema.ts'
import { resultOf } from '../perf/result.ts'
import { levelOptionsBut, type PerfContext, type PerfExtension } from './perf-extension.ts'
import { samplesInMemory } from './perf-input-options.ts'
import { perfExitCodes } from './perf-left-out.ts'
import { measureLevels } from './perf-levels.ts'
import { above, whole } from './perf-measure-options.ts'

/** Options of `--check-rows`, in commander's form. */
export interface CheckOptions {
  readonly checkRows?: true
  readonly checkTolerance: number
  readonly checkRounds: number
}

/** Default number of concurrent requests: enough for batches to form. */
const usualConcurrency = 16

/** `--check-rows`: compares each answer with the one that its request gets alone. */
export const rowChecks: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Answers:')
      .option('--check-rows', 'compare answers under load with answers to single requests')
      .option(
        '--check-tolerance <share>',
        'how much floats may differ, relative to the largest value of the answer',
        above(0, true),
        defaultTolerance,
      )
      .option('--check-rounds <count>', 'how many times each request is sent under load', whole(1), 4),
  leader: 'checkRows',
  unheard: () => [...levelOptionsBut('concurrencyRange'), 'profileExportFile'],
  measure,
}

async function measure(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { opened, shown, signal, target, print } = context
  const { concurrencyRange, checkTolerance: tolerance, checkRounds: rounds } = context.options
  const { samples } = await samplesInMemory(context, 'check-rows', {
    fewest: 8,
    most: 64,
    bytes: 64 * 2 ** 20,
  })
  const accuracy = await checkRows(opened.model, samples, {
    concurrency: concurrencyRange?.start ?? usualConcurrency,
    rounds,
    tolerance,
    signal,
  })
  const result = resultOf(target, shown, { mode: 'concurrency', levels: [], accuracy })
  print(accuracyText(accuracy))
  if (signal.aborted) tellLine('interrupted: these are the comparisons up to then')
  return { result, exitCode: accuracy.within ? 0 : perfExitCodes.differs }
}

/** More memory than processor caches have. */
const beyondCaches = { fewest: 16, most: 4096, bytes: 128 * 2 ** 20 }

/** `--inputs`: one repeated request, and requests that never repeat. */
export const inputComparisons: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Answers:')
      .addOption(new Option('--inputs <kind>', 'whether inputs repeat').choices(['same', 'unique', 'both'])),
  leader: 'inputs',
  // Files of levels would be written twice.
  unheard: ({ inputs, scenario }) =>
    inputs === 'both' && scenario === undefined ? ['latencyReportFile', 'profileExportFile'] : [],
  measure: measureInputs,
}

async function measureInputs(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { options, target, settings, print } = context
  const { samples, areRandom } = await samplesInMemory(context, 'inputs', beyondCaches)
  const sources: Record<'same' | 'unique', () => SampleSource> = {
    same: () => new SampleCycle(samples.slice(0, 1)),
    // A cache may still have the answer to the first.
    unique: () =>
      new UniqueSamples(
        samples.length > 1 ? samples.slice(1) : samples,
        areRandom ? mulberry32(settings.seed + 1) : null,
      ),
  }
  const runs: InputLevels[] = []
  const measured: { result: PerfResult; exitCode: number }[] = []
  for (const kind of options.inputs === 'both' ? (['same', 'unique'] as const) : [options.inputs!]) {
    const source = sources[kind]()
    print(`Inputs: ${kind}\n`)
    const own = await measureLevels({ ...context, target: { ...target, source } })
    measured.push(own)
    runs.push({ inputs: kind, distinct: source.size, levels: own.result.levels })
    if (context.signal.aborted) break
  }
  const result: PerfResult = { ...measured.at(-1)!.result, inputs: runs }
  print(inputsText(result.mode, runs))
  return { result, exitCode: Math.max(...measured.map(({ exitCode }) => exitCode)) }
}
