import type { Command } from 'commander'
import type { SampleSource } from '../perf/input/sample-source.ts'
import type { OpenedModel, PerfTarget } from '../perf/open-target.ts'
import type { PerfSettings } from '../perf/perf-settings.ts'
import type { PerfResult } from '../perf/result-schema.ts'
import type { CheckOptions } from './perf-check-rows.ts'
import type { EngineCommandOptions } from './perf-engine-options.ts'
import type { ProfileExport } from '../perf/report/profile-export.ts'
import type { InputOptions } from './perf-input-options.ts'
import type { MeasureOptions } from './perf-measure-options.ts'
import type { ReplayOptions } from './perf-replay.ts'
import type { ScenarioCommandOptions } from './perf-scenario.ts'

/** The values of all options of `zerohop perf`, under commander's names. */
export interface PerfOptions
  extends
    InputOptions,
    MeasureOptions,
    EngineCommandOptions,
    ScenarioCommandOptions,
    ReplayOptions,
    CheckOptions {
  readonly modelName: string
  readonly modelVersion?: string
  readonly modelRepository?: string
  readonly verbose: boolean
  readonly latencyReportFile?: string
  readonly verboseCsv: boolean
  readonly profileExportFile?: string
  readonly report?: string
  readonly json?: true | string
}

/** What an extension works with. */
export interface PerfContext {
  readonly options: PerfOptions
  readonly opened: OpenedModel
  /** The model and the source of its requests, by the input options. */
  readonly target: PerfTarget
  readonly settings: PerfSettings
  /** The settings as shown in a result. */
  readonly shown: PerfResult['settings']
  /** Aborted by the first Ctrl-C. The extension then reports what was measured so far. */
  readonly signal: AbortSignal
  /** Collects each request of each level, for `--profile-export-file`; `null` without it. */
  readonly profile: ProfileExport | null
  /** Writes to standard output. */
  readonly print: (text: string) => void
}

/** Another measurement than that of levels of load, with options of its own. */
export interface PerfExtension {
  /** Adds the options to a command. */
  addOptions(command: Command): void
  /** The option that activates it. Its other options have no effect without that one, and are refused. */
  readonly leader: 'scenario' | 'replay' | 'checkRows' | 'inputs'
  /**
   * Options of others that have no effect together with it, under commander's names. They are refused, too.
   */
  unheard(options: PerfOptions): readonly string[]
  /** The source of requests, instead of the one by the input options. Default: the input options. */
  source?(options: PerfOptions, opened: OpenedModel, settings: PerfSettings): Promise<SampleSource>
  /** Measures, and prints the result. The exit code is that of the worst result. */
  measure(context: PerfContext): Promise<{ readonly result: PerfResult; readonly exitCode: number }>
}

/**
 * Options about measuring levels. They have no effect on an extension that measures something else, except on
 * those that it uses itself.
 */
export function levelOptionsBut(...heard: readonly string[]): string[] {
  const all = [
    'concurrencyRange', 'requestRateRange', 'requestDistribution', 'requestIntervals', 'periodicConcurrencyRange', 'requestPeriod',
    'measurementMode', 'measurementInterval', 'measurementRequestCount', 'stabilityPercentage', 'maxTrials', 'percentile', 'latencyThreshold', 'binarySearch',
    'warmupRequestCount', 'requestCount', 'goodput', 'latencyReportFile', 'verboseCsv',
  ] // prettier-ignore
  return all.filter((name) => !heard.includes(name))
}

/**
 * Ends the program, before anything is opened, if a given option would have no effect: one of an inactive
 * extension, or one that an active extension excludes.
 *
 * @param ownOptions of each extension.
 */
export function refuseUnheard(
  command: Command,
  ownOptions: ReadonlyMap<PerfExtension, readonly string[]>,
): void {
  const isGiven = (name: string) => command.getOptionValueSource(name) === 'cli'
  const optionOf = (name: string) => command.options.find((option) => option.attributeName() === name)!
  const written = (name: string) => {
    const value: unknown = command.getOptionValue(name)
    return typeof value === 'string' ? `${optionOf(name).long!} ${value}` : optionOf(name).long!
  }
  for (const [{ leader, unheard }, own] of ownOptions) {
    const isAsked = isGiven(leader)
    const first = (isAsked ? unheard(command.opts()) : own).find(isGiven)
    if (first === undefined) continue
    command.error(
      isAsked
        ? `error: ${written(first)} has no effect with ${written(leader)}: omit it`
        : `error: ${written(first)} has no effect without ${optionOf(leader).flags}: add that, or omit this`,
    )
  }
}

/** Options about output, which do not change a measurement. */
const told = new Set(['json', 'report', 'latencyReportFile', 'profileExportFile', 'verbose', 'verboseCsv'])

/**
 * The settings of a command line under the names of its options, ranges as written, and which of them were
 * given.
 */
export function settingsShown(command: Command): Required<Pick<PerfResult, 'settings' | 'given'>> {
  const options = Object.entries(command.opts()).filter(([name]) => !told.has(name))
  const isGiven = ([name]: readonly [string, unknown]) => command.getOptionValueSource(name) === 'cli'
  const nameOf = ([name]: readonly [string, unknown]) =>
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  return {
    settings: Object.fromEntries(options.map((option) => [nameOf(option), shown(option[1])])),
    given: options.filter(isGiven).map(nameOf),
  }
}

function shown(value: unknown): unknown {
  const { start, end, step } = Object(value) as { start?: number; end?: number; step?: number }
  return start === undefined || end === undefined
    ? value
    : [start, end, ...(step === undefined ? [] : [step])].join(':')
}
