import { invalidArgument } from 'zerohop/internals'
import { withoutUndefined } from '../../without-undefined.ts'

/** The scenarios of MLPerf's LoadGen. */
export const scenarioNames = ['single-stream', 'multi-stream', 'server', 'offline'] as const
export type ScenarioName = (typeof scenarioNames)[number]

/** The samples of a run: random ones, always the same, or each once. */
export const inputChoices = ['random', 'same', 'unique'] as const
export type InputChoice = (typeof inputChoices)[number]

/** Seeds of the random generators, 64 bits each. */
interface ScenarioSeeds {
  /** Which samples are loaded, and in what order. */
  readonly qsl: bigint
  /** The order of samples in queries. */
  readonly sampleIndex: bigint
  /** When queries of `server` arrive. */
  readonly schedule: bigint
}

/** LoadGen's seeds for every measurement, from mlperf.conf. */
const loadGenSeeds: ScenarioSeeds = {
  qsl: 2085463073848966840n,
  sampleIndex: 2747215439041700203n,
  schedule: 16159082839903944936n,
}

/**
 * How to run a scenario. Names, meanings and defaults are LoadGen's (`test_settings.h`, overridden by
 * `mlperf.conf`).
 */
export interface ScenarioSettings {
  readonly scenario: ScenarioName
  /** Queries are sent for at least this long. Default: ten minutes. */
  readonly minDurationMs: number
  /** No query is sent after this time; 0, the default, for no limit. */
  readonly maxDurationMs: number
  /**
   * Fewest queries; for `offline`, which has one query, fewest samples. Default: 100; `multi-stream` 662;
   * `offline` all samples, at most 24 576.
   */
  readonly minQueryCount: number
  /** Most queries; 0, the default, for no limit. */
  readonly maxQueryCount: number
  /** Samples per query of `multi-stream`. Default: 8. */
  readonly samplesPerQuery: number
  /**
   * The percentile of latency for the metric, or for the bound of `server`. Default: 0.99; `single-stream`
   * 0.9.
   */
  readonly targetLatencyPercentile: number
  /** The bound of `server`. Default: 10 ms. */
  readonly targetLatencyMs: number
  /**
   * Queries per second of `server`; for `offline` the expected rate, which determines the size of its query.
   * With `null`, the default, the peak of `server` is searched, and `offline` runs until its minimum
   * duration.
   */
  readonly targetQps: number | null
  /** A run of `server` ends when more queries than this wait for answers; 0, the default, for no limit. */
  readonly maxAsyncQueries: number
  /** Samples of `offline` in flight at once, as not all of the query fits in memory. Default: 256. */
  readonly offlineWindow: number
  /** Number of samples. */
  readonly totalSampleCount: number
  /** Number of samples in use. Default: all. */
  readonly performanceSampleCount: number
  /** `performance_issue_same` and `performance_issue_unique`. Default: `random`. */
  readonly inputs: InputChoice
  /** Which of the loaded samples `same` repeats. Default: 0. */
  readonly sameSampleIndex: number
  readonly seeds: ScenarioSeeds
}

const tenMinutesMs = 600_000
const mostOfOffline = 24_576

/** MLPerf's settings for a scenario with so many samples. */
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

/** The optional part of {@link ScenarioSettings}; defaults are LoadGen's. */
export type ScenarioOptions = { readonly scenario: ScenarioName; readonly totalSampleCount: number } & {
  readonly [Name in keyof ScenarioSettings]?: ScenarioSettings[Name] | undefined
}

/**
 * Settings with LoadGen's defaults, checked.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for settings that no run can have.
 */
export function resolveScenario(options: ScenarioOptions): ScenarioSettings {
  const { scenario, totalSampleCount } = options
  if (!scenarioNames.includes(scenario))
    throw invalidArgument('scenario', `one of ${scenarioNames.join(', ')}`, scenario)
  const settings = {
    ...loadGenDefaults(scenario, totalSampleCount),
    ...withoutUndefined(options),
  } as ScenarioSettings
  for (const [name, expected, holds] of rules(settings))
    if (!holds(settings[name])) throw invalidArgument(name, expected, settings[name])
  return Object.freeze(settings)
}

/** What must hold for settings, in the order in which it is checked. */
function rules(
  settings: ScenarioSettings,
): [name: keyof ScenarioSettings, expected: string, holds: (value: unknown) => boolean][] {
  const { totalSampleCount, performanceSampleCount } = settings
  const from = (least: number) => (value: unknown) => Number.isFinite(value) && Number(value) >= least
  const above0 = (value: unknown) => Number.isFinite(value) && Number(value) > 0
  const countFrom = (least: number) => (value: unknown) => Number.isSafeInteger(value) && from(least)(value)
  return [
    ['totalSampleCount', 'a whole number of at least 1', countFrom(1)],
    ['performanceSampleCount', 'a whole number of at least 1', countFrom(1)],
    ['samplesPerQuery', 'a whole number of at least 1', countFrom(1)],
    ['minQueryCount', 'a whole number of at least 1', countFrom(1)],
    ['offlineWindow', 'a whole number of at least 1', countFrom(1)],
    ['maxQueryCount', 'a whole number of at least 0', countFrom(0)],
    ['maxAsyncQueries', 'a whole number of at least 0', countFrom(0)],
    ['sameSampleIndex', 'a whole number of at least 0', countFrom(0)],
    ['minDurationMs', 'milliseconds, at least 0', from(0)],
    ['maxDurationMs', 'milliseconds, at least 0', from(0)],
    ['targetLatencyPercentile', 'a share between 0 and 1', (value) => above0(value) && Number(value) < 1],
    ['targetLatencyMs', 'milliseconds, more than 0', above0],
    ['targetQps', 'queries a second, more than 0', (value) => value === null || above0(value)],
    [
      'inputs',
      `one of ${inputChoices.join(', ')}`,
      (value) => inputChoices.some((choice) => choice === value),
    ],
    [
      'performanceSampleCount',
      `at most the ${totalSampleCount} samples that there are`,
      (value) => Number(value) <= totalSampleCount,
    ],
    [
      'sameSampleIndex',
      `less than the ${performanceSampleCount} samples that are loaded`,
      (value) => Number(value) < performanceSampleCount,
    ],
  ]
}

/** Settings that ask for less than MLPerf's: a run is then valid only by these settings. */
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
