import { Option, type Command } from 'commander'
import { loadClock } from '../perf/load/load.ts'
import { Metronome } from '../perf/load/open-loop.ts'
import type { PerfResult } from '../perf/result.ts'
import { findPeak, firstRate } from '../perf/scenarios/find-peak.ts'
import { runScenario, type ScenarioSystem } from '../perf/scenarios/run-scenario.ts'
import type { PeakStep, ScenarioResult } from '../perf/scenarios/judge-run.ts'
import {
  resolveScenario,
  scenarioNames,
  type InputChoice,
  type ScenarioName,
  type ScenarioSettings,
} from '../perf/scenarios/scenario-settings.ts'
import { summaryText } from '../perf/scenarios/summary-text.ts'
import { sender } from '../perf/open-target.ts'
import { tellLine } from 'zerohop/internals'
import { perfExitCodes } from './perf-left-out.ts'
import { levelOptionsBut, type PerfContext, type PerfExtension } from './perf-extension.ts'
import { samplesInMemory } from './perf-input-options.ts'
import { above, share, whole } from './perf-measure-options.ts'
import { ScenarioProgress } from './progress-line.ts'

/** Options of scenarios, as commander has them. */
interface ScenarioCommandOptions {
  readonly scenario: ScenarioName
  readonly targetQps?: number
  readonly findPeakPerformance?: true
  readonly findPeakPrecision: number
  readonly findPeakAttempts: number
  readonly targetLatency?: number
  readonly targetLatencyPercentile?: number
  readonly minDuration?: number
  readonly maxDuration?: number
  readonly minQueryCount?: number
  readonly maxQueryCount?: number
  readonly samplesPerQuery?: number
  readonly maxAsyncQueries?: number
  readonly performanceSampleCount?: number
  readonly inputs?: InputChoice | 'both'
}

/** Made-up samples, where it is not said how many: LoadGen's are so many of a common benchmark. */
const madeUp = { fewest: 16, most: 1024, bytes: 64 * 2 ** 20 }

/** `--scenario`: the scenarios of MLPerf's LoadGen. */
export const scenarios: PerfExtension = {
  addOptions: (command) => void addScenarioOptions(command),
  leader: 'scenario',
  unheard: ({ scenario, inputs }) => [
    ...levelOptionsBut(),
    ...(scenario === 'server' ? [] : ['findPeakPerformance', 'findPeakPrecision', 'findPeakAttempts']),
    ...(inputs === 'both' ? ['inputs'] : []),
  ],
  measures: ({ scenario }) => scenario !== undefined,
  measure: measureScenario,
}

function addScenarioOptions(command: Command): void {
  command
    .optionsGroup("Scenarios of MLPerf's LoadGen, with its names and defaults:")
    .addOption(
      new Option('--scenario <name>', 'measure a scenario, by its rules').choices([...scenarioNames]),
    )
    .option(
      '--target-qps <number>',
      'queries a second of server, which without it looks for its peak; what offline is expected to do',
      above(0),
    )
    .option('--find-peak-performance', 'look for the peak of server from --target-qps on')
    .option('--find-peak-precision <percent>', 'how near to the peak the search ends', above(0), 1)
    .option(
      '--find-peak-attempts <count>',
      "how often a rate has to miss the bound to be too high; LoadGen's is 1",
      whole(1),
      2,
    )
    .option('--target-latency <ms>', 'the bound of server (default: 10)', above(0))
    .option(
      '--target-latency-percentile <percent>',
      'the percentile that is told, or that the bound is about (default: 99, of single-stream 90)',
      share,
    )
    .option('--min-duration <ms>', 'how long queries are sent at least (default: 600000)', above(0, true))
    .option('--max-duration <ms>', 'no query is sent after so long (default: no limit)', above(0, true))
    .option(
      '--min-query-count <count>',
      'queries that are sent at least (default: 100, of multi-stream 662, of offline all samples, 24576 at most)',
      whole(1),
    )
    .option('--max-query-count <count>', 'no more queries than that (default: no limit)', whole(0))
    .option('--samples-per-query <count>', 'of multi-stream (default: 8)', whole(1, 1_000_000))
    .option(
      '--max-async-queries <count>',
      'a run of server ends when more queries wait for their answers (default: 200000)',
      whole(0),
    )
    .option(
      '--performance-sample-count <count>',
      'samples that are in use; of random data, so many are made up (default: all of those given, 1024 random ones or 64 MiB of them)',
      whole(1),
    )
}

async function measureScenario(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { opened, shown, signal, target, print } = context
  const options = context.options as unknown as ScenarioCommandOptions
  const { samples } = await samplesInMemory(context, 'scenario', madeUp, options.performanceSampleCount)
  const send = sender(opened.model, null)
  const settings = settingsOf(options, samples.length)
  const progress = new ScenarioProgress()
  const metronome = settings.scenario === 'server' ? new Metronome(loadClock) : null
  const system: ScenarioSystem = {
    send: progress.counting((index) => send(samples[index]!)),
    clock: loadClock,
    signal,
    ...(metronome === null ? {} : { pacer: metronome }),
  }
  const isSearch =
    settings.scenario === 'server' && (settings.targetQps === null || options.findPeakPerformance === true)
  let scenario: ScenarioResult
  try {
    await send(samples[0]!)
    if (!isSearch) progress.begin(settings.scenario, settings.minDurationMs)
    scenario = isSearch
      ? await search(settings, system, options, progress)
      : await runScenario(settings, system)
  } finally {
    progress.end()
    metronome?.stop()
  }
  const { name, version } = target.model
  const result: PerfResult = {
    model: name,
    version,
    settings: shown,
    machine: opened.machine,
    date: new Date().toISOString(),
    mode: 'scenario',
    levels: [],
    scenario,
  }
  print(summaryText(name, scenario))
  if (signal.aborted) tellLine('interrupted: this is what was measured until then')
  return { result, exitCode: isGood(scenario) || signal.aborted ? 0 : perfExitCodes.unstable }
}

/** A search has done what it was for when it has found a peak, of which early stopping can hardly be sure. */
const isGood = ({ valid, peak }: ScenarioResult) => valid || (peak !== null && peak.targetQps !== null)

async function search(
  settings: ScenarioSettings,
  system: ScenarioSystem,
  { findPeakPrecision, findPeakAttempts }: ScenarioCommandOptions,
  progress: ScenarioProgress,
): Promise<ScenarioResult> {
  const targetQps = settings.targetQps ?? (await firstRate(system))
  const shown = (qps: number) => `target_qps ${Number(qps.toPrecision(6))}`
  const onStep = ({ targetQps: qps, met, percentileUs, endedEarly }: PeakStep) => {
    progress.end()
    tellLine(
      `${shown(qps)} ${met ? 'holds' : 'does not hold'}: ${(percentileUs / 1000).toFixed(3)} ms${endedEarly ? ' when it was given up' : ''}`,
    )
  }
  const onRate = (qps: number) => progress.begin(shown(qps), settings.minDurationMs)
  return findPeak({ ...settings, targetQps }, system, {
    precision: findPeakPrecision / 100,
    attempts: findPeakAttempts,
    onRate,
    onStep,
  })
}

function settingsOf(options: ScenarioCommandOptions, totalSampleCount: number): ScenarioSettings {
  const {
    scenario,
    targetQps,
    targetLatency,
    targetLatencyPercentile,
    minDuration,
    maxDuration,
    minQueryCount,
    maxQueryCount,
    samplesPerQuery,
    maxAsyncQueries,
    performanceSampleCount,
    inputs,
  } = options
  return resolveScenario({
    scenario,
    totalSampleCount,
    targetQps,
    minQueryCount,
    maxQueryCount,
    samplesPerQuery,
    maxAsyncQueries,
    performanceSampleCount,
    targetLatencyMs: targetLatency,
    targetLatencyPercentile,
    minDurationMs: minDuration,
    maxDurationMs: maxDuration,
    inputs: inputs as InputChoice | undefined,
  })
}
