import { invalidArgument } from 'zerohop/internals'

/** The scenarios of MLPerf's LoadGen. */
export const scenarioNames = ['single-stream', 'multi-stream', 'server', 'offline'] as const
export type ScenarioName = (typeof scenarioNames)[number]

/** Which samples a run has: any, one again and again, or each once. */
const inputChoices = ['random', 'same', 'unique'] as const
export type InputChoice = (typeof inputChoices)[number]

/** What each generator of random numbers begins with, in 64 bits. */
interface ScenarioSeeds {
  /** Which samples are loaded, and in what order. */
  readonly qsl: bigint
  /** In what order queries have them. */
  readonly sampleIndex: bigint
  /** When queries of `server` come. */
  readonly schedule: bigint
}

/** The seeds of every measurement, as LoadGen's mlperf.conf has them. */
const loadGenSeeds: ScenarioSeeds = {
  qsl: 2085463073848966840n,
  sampleIndex: 2747215439041700203n,
  schedule: 16159082839903944936n,
}

/** How a scenario is run; names, meanings and defaults are those of LoadGen (`test_settings.h`, and over it `mlperf.conf`). */
export interface ScenarioSettings {
  readonly scenario: ScenarioName
  /** Queries are sent for at least so long. Default: ten minutes. */
  readonly minDurationMs: number
  /** No query is sent after so long; 0, the default, for no limit. */
  readonly maxDurationMs: number
  /** Queries that are sent at least; of `offline`, which has one, its samples. Default: 100, of `multi-stream` 662, of `offline` all samples, 24 576 at most. */
  readonly minQueryCount: number
  /** No more queries than that; 0, the default, for no limit. */
  readonly maxQueryCount: number
  /** Of a query of `multi-stream`. Default: 8. */
  readonly samplesPerQuery: number
  /** The share of latencies that the metric, or the bound of `server`, is about. Default: 0.99, of `single-stream` 0.9. */
  readonly targetLatencyPercentile: number
  /** The bound of `server`. Default: 10 ms. */
  readonly targetLatencyMs: number
  /**
   * Queries a second of `server`; what `offline` is expected to do, of which the size of its query follows. `null`, the
   * default: the peak of `server` is looked for, and `offline` goes on until its minimum duration is over.
   */
  readonly targetQps: number | null
  /** A run of `server` ends when more queries than that wait for their answers; 0, the default, for no limit. */
  readonly maxAsyncQueries: number
  /** Samples of `offline` that wait for their answers at once: the engine has all of its query to choose from, but not all in memory. Default: 256. */
  readonly offlineWindow: number
  /** Samples that there are. */
  readonly totalSampleCount: number
  /** Samples that are in use. Default: all. */
  readonly performanceSampleCount: number
  /** `performance_issue_same` and `performance_issue_unique`. Default: `random`. */
  readonly inputs: InputChoice
  /** Which of the loaded samples `same` is about. Default: 0. */
  readonly sameSampleIndex: number
  readonly seeds: ScenarioSeeds
}

const tenMinutesMs = 600_000
const mostOfOffline = 24_576

/** The settings of MLPerf for a scenario over so many samples. */
function loadGenDefaults(scenario: ScenarioName, totalSampleCount: number): ScenarioSettings {
  return {
    scenario,
    minDurationMs: tenMinutesMs,
    maxDurationMs: 0,
    minQueryCount:
      scenario === 'multi-stream'
        ? 662
        : scenario === 'offline'
          ? Math.min(mostOfOffline, totalSampleCount)
          : 100,
    maxQueryCount: 0,
    samplesPerQuery: 8,
    targetLatencyPercentile: scenario === 'single-stream' ? 0.9 : 0.99,
    targetLatencyMs: 10,
    targetQps: null,
    maxAsyncQueries: 0,
    offlineWindow: 256,
    totalSampleCount,
    performanceSampleCount: totalSampleCount,
    inputs: 'random',
    sameSampleIndex: 0,
    seeds: loadGenSeeds,
  }
}

/** What of {@link ScenarioSettings} may be given; what is left out is as LoadGen has it. */
export type ScenarioOptions = { readonly scenario: ScenarioName; readonly totalSampleCount: number } & {
  readonly [Name in keyof ScenarioSettings]?: ScenarioSettings[Name] | undefined
}

/**
 * Settings with LoadGen's defaults, checked.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for what no run can have.
 */
export function resolveScenario(options: ScenarioOptions): ScenarioSettings {
  const { scenario, totalSampleCount } = options
  if (!scenarioNames.includes(scenario))
    throw invalidArgument('scenario', `one of ${scenarioNames.join(', ')}`, scenario)
  const settings = {
    ...loadGenDefaults(scenario, totalSampleCount),
    ...withoutUndefined(options),
  } as ScenarioSettings
  for (const name of [
    'totalSampleCount',
    'performanceSampleCount',
    'samplesPerQuery',
    'minQueryCount',
    'offlineWindow',
  ] as const) {
    requireThat(
      Number.isSafeInteger(settings[name]) && settings[name] >= 1,
      name,
      'a whole number of at least 1',
      settings[name],
    )
  }
  for (const name of ['maxQueryCount', 'maxAsyncQueries', 'sameSampleIndex'] as const) {
    requireThat(
      Number.isSafeInteger(settings[name]) && settings[name] >= 0,
      name,
      'a whole number of at least 0',
      settings[name],
    )
  }
  for (const name of ['minDurationMs', 'maxDurationMs'] as const) {
    requireThat(
      Number.isFinite(settings[name]) && settings[name] >= 0,
      name,
      'milliseconds, at least 0',
      settings[name],
    )
  }
  const {
    targetLatencyPercentile: percentile,
    targetLatencyMs,
    targetQps,
    performanceSampleCount,
    sameSampleIndex,
    inputs,
  } = settings
  requireThat(
    percentile > 0 && percentile < 1,
    'targetLatencyPercentile',
    'a share between 0 and 1',
    percentile,
  )
  requireThat(
    Number.isFinite(targetLatencyMs) && targetLatencyMs > 0,
    'targetLatencyMs',
    'milliseconds, more than 0',
    targetLatencyMs,
  )
  requireThat(
    targetQps === null || (Number.isFinite(targetQps) && targetQps > 0),
    'targetQps',
    'queries a second, more than 0',
    targetQps,
  )
  requireThat(inputChoices.includes(inputs), 'inputs', `one of ${inputChoices.join(', ')}`, inputs)
  requireThat(
    performanceSampleCount <= totalSampleCount,
    'performanceSampleCount',
    `at most the ${totalSampleCount} samples that there are`,
    performanceSampleCount,
  )
  requireThat(
    sameSampleIndex < performanceSampleCount,
    'sameSampleIndex',
    `less than the ${performanceSampleCount} samples that are loaded`,
    sameSampleIndex,
  )
  return Object.freeze(settings)
}

/**
 * Where a run is asked for less than MLPerf asks for: what is valid under such settings is so by them alone.
 */
export function belowMlperf(settings: ScenarioSettings): string[] {
  const rules = loadGenDefaults(settings.scenario, settings.totalSampleCount)
  const names = ['minDurationMs', 'minQueryCount'] as const
  const below: string[] = names
    .filter((name) => settings[name] < rules[name])
    .map((name) => `${name} ${settings[name]} < ${rules[name]}`)
  if (settings.targetLatencyPercentile < rules.targetLatencyPercentile)
    below.push(
      `targetLatencyPercentile ${settings.targetLatencyPercentile} < ${rules.targetLatencyPercentile}`,
    )
  const { seeds, inputs } = settings
  if (Object.entries(rules.seeds).some(([name, seed]) => seeds[name as keyof ScenarioSeeds] !== seed))
    below.push('seeds of its own')
  if (inputs !== 'random') below.push(`inputs ${inputs}`)
  return below
}

const withoutUndefined = (options: object) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

function requireThat(holds: boolean, name: string, expected: string, received: unknown): void {
  if (!holds) throw invalidArgument(name, expected, received)
}
