import type { Command } from 'commander'
import { loadArrivals } from '../recordings/read-arrivals.ts'
import { invalidArgument, mulberry32, tellLine } from 'zerohop/internals'
import { type OpenedModel, probe } from '../perf/open-target.ts'
import { arrivalsOf, replay, ReplaySource } from '../perf/replay/replay.ts'
import { levelText, settingsText, summaryText } from '../perf/report/console-report.ts'
import type { PerfResult } from '../perf/result-schema.ts'
import { resultOf } from '../perf/result.ts'
import { levelOptionsBut, type PerfContext, type PerfExtension, type PerfOptions } from './perf-extension.ts'
import { inputSettings } from './perf-input-options.ts'
import { perfExitCodes } from './perf-left-out.ts'
import { nothingAnswered } from './perf-levels.ts'
import { PerfProgress } from './progress-line.ts'
import { above } from './perf-measure-options.ts'
import { madeUpKinds } from '../perf/input/generated-data.ts'

/** Options of `--replay`, in commander's form. */
export interface ReplayOptions {
  readonly replay?: string
  readonly replayModel?: string
  readonly speed: number
}

/** `zerohop perf --replay FILE --speed X`: sends the requests of a recording again. */
export const perfReplay: PerfExtension = {
  addOptions(command: Command): void {
    command
      .optionsGroup('Replay:')
      .option('--replay <file>', 'replay a recording (engine.recordArrivals)')
      .option('--replay-model <name>', 'model to replay, if the recording has several')
      .option('--speed <factor>', 'replay this many times as fast', above(0), 1)
  },
  leader: 'replay',
  unheard: () => levelOptionsBut('percentile', 'goodput', 'latencyReportFile', 'verboseCsv'),
  source: (options, opened, { seed }) => replaySource(options, opened, seed),
  measure: measureReplay,
}

async function replaySource(options: PerfOptions, opened: OpenedModel, seed: number): Promise<ReplaySource> {
  const arrivals = arrivalsOf(await loadArrivals(options.replay!), options.replayModel ?? null)
  const { inputData, ...input } = inputSettings(options, opened, seed)
  const kinds = madeUpKinds(inputData, opened.model.metadata.inputs)
  if (kinds === null) throw invalidArgument('--input-data', 'random or zero, with --replay', [...inputData])
  return new ReplaySource(
    arrivals,
    opened.model.metadata,
    { ...input, ...kinds },
    input.shapes,
    mulberry32(seed),
  )
}

async function measureReplay(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { options, settings, shown, signal, print, profile } = context
  const target = { ...context.target, source: context.target.source as ReplaySource }
  const { arrivals } = target.source
  await probe({ model: target.model, source: { size: 1, next: () => target.source.first() } }, signal)
  const progress = new PerfProgress(options.json === true)
  print(
    settingsText({
      ...settings,
      requestCount: arrivals.length,
      batchSize: arrivals[0]!.rows,
      mode: 'request-intervals',
      distribution: null,
    }),
  )
  try {
    const level = await replay(target, options.speed, settings, {
      signal,
      ...(profile === null ? {} : { log: profile.begin('replay', options.speed) }),
      onStart: (recorder) => progress.begin('replay', options.speed, 1, recorder),
      onWindow: (window) => profile?.window(window),
    })
    progress.end()
    const result = resultOf(target, shown, { mode: 'replay', levels: [level] })
    print(levelText('replay', level))
    const isInVain = level.requestCount === 0 && !signal.aborted
    if (signal.aborted) tellLine('interrupted: these are the results up to then')
    else if (isInVain) tellLine(nothingAnswered('replay', level.level))
    print(summaryText('replay', result.levels))
    return { result, exitCode: isInVain ? perfExitCodes.unstable : 0 }
  } finally {
    progress.end()
  }
}
