import type { Command } from 'commander'
import { accuracyText, checkRows, defaultTolerance } from '../perf/accuracy/check-rows.ts'
import type { PerfResult } from '../perf/result.ts'
import { tellLine } from 'zerohop/internals'
import { perfExitCodes } from './perf-exit-codes.ts'
import type { PerfContext, PerfExtension } from './perf-extension.ts'
import type { MeasureOptions } from './perf-measure-options.ts'
import { levelOptionsBut } from './perf-instead.ts'
import { samplesInMemory } from './perf-samples.ts'
import { above, whole } from './perf-values.ts'

/** Options of `--check-rows`, as commander has them. */
interface CheckOptions extends Pick<MeasureOptions, 'concurrencyRange'> {
  readonly checkTolerance: number
  readonly checkRounds: number
}

/** Requests at once, where it is not said: enough for batches to form. */
const usualConcurrency = 16

/** `--check-rows`: each answer beside the one that its request gets alone. */
export const rowChecks: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Answers:')
      .option(
        '--check-rows',
        'compare each answer under load with the one that the same request gets alone, in the place of a measurement',
      )
      .option(
        '--check-tolerance <share>',
        'by how much floats may differ, relative to the largest of their answer',
        above(0, true),
        defaultTolerance,
      )
      .option('--check-rounds <count>', 'how often each request is sent under load', whole(1), 4),
  leader: 'checkRows',
  unheard: () => [...levelOptionsBut('concurrencyRange'), 'profileExportFile'],
  measures: ({ checkRows: isAsked }) => isAsked === true,
  measure,
}

async function measure(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { opened, shown, signal, target, print } = context
  const {
    concurrencyRange,
    checkTolerance: tolerance,
    checkRounds: rounds,
  } = context.options as unknown as CheckOptions
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
  const { name, version } = target.model
  const result: PerfResult = {
    model: name,
    version,
    settings: shown,
    machine: opened.machine,
    date: new Date().toISOString(),
    mode: 'concurrency',
    levels: [],
    accuracy,
  }
  print(accuracyText(accuracy))
  if (signal.aborted) tellLine('interrupted: this is what was compared until then')
  return { result, exitCode: accuracy.within ? 0 : perfExitCodes.differs }
}
