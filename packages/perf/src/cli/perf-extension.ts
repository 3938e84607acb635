import type { Command } from 'commander'
import type { SampleSource } from '../perf/input/sample-source.ts'
import type { OpenedModel, PerfTarget } from '../perf/open-target.ts'
import type { PerfSettings } from '../perf/perf-settings.ts'
import type { PerfResult } from '../perf/result.ts'
import type { ProfileExport } from './perf-files.ts'

/** The values of all options of `zerohop perf`, under the names that commander gives them. */
export type PerfOptions = Readonly<Record<string, unknown>>

/** What an extension has to work with. */
export interface PerfContext {
  readonly options: PerfOptions
  readonly opened: OpenedModel
  /** The model with what it is asked, as the options of inputs say. */
  readonly target: PerfTarget
  readonly settings: PerfSettings
  /** The settings as they are told in a result. */
  readonly shown: PerfResult['settings']
  /** Aborted by the first Ctrl-C, after which it tells what was measured until then. */
  readonly signal: AbortSignal
  /** Takes each request of each level, for `--profile-export-file`; `null` without it. */
  readonly profile: ProfileExport | null
  /** Writes to standard output. */
  readonly print: (text: string) => void
}

/** Options of `zerohop perf` that live in a file of their own. */
export interface PerfExtension {
  /** Adds them. */
  addOptions(command: Command): void
  /** Whether they are asked to measure, in the place of the usual levels: one of them at most may be. */
  measures?(options: PerfOptions): boolean
  /** The option that asks them to: others of its own mean nothing without it, and are refused. */
  readonly leader?: string
  /** Options of others that mean nothing beside it, under the names that commander gives them: they are refused, too. */
  unheard?(options: PerfOptions): readonly string[]
  /** What the model is asked then, in the place of what the options of inputs say. Default: as they say. */
  source?(options: PerfOptions, opened: OpenedModel, settings: PerfSettings): Promise<SampleSource>
  /** Measures; prints what it found. The exit code is that of the worst it has seen, `undefined` for 0. */
  measure?(context: PerfContext): Promise<{ readonly result: PerfResult; readonly exitCode?: number }>
  /** Does something with a result, whoever measured it. */
  report?(result: PerfResult, context: PerfContext): Promise<void>
}

/** Options of how levels are measured, which mean nothing to what is measured in their place, but for what it takes for itself. */
export function levelOptionsBut(...heard: readonly string[]): string[] {
  const all = [
    'concurrencyRange', 'requestRateRange', 'requestDistribution', 'requestIntervals', 'periodicConcurrencyRange', 'requestPeriod',
    'measurementMode', 'measurementInterval', 'measurementRequestCount', 'stabilityPercentage', 'maxTrials', 'percentile', 'latencyThreshold', 'binarySearch',
    'warmupRequestCount', 'requestCount', 'goodput', 'latencyReportFile', 'verboseCsv',
  ] // prettier-ignore
  return all.filter((name) => !heard.includes(name))
}

/**
 * Ends the program, before anything is opened, where an option was given that nobody would hear: one of an extension that is not
 * asked to measure, or one that means nothing beside one that is.
 */
export function refuseUnheard(
  command: Command,
  extensions: readonly PerfExtension[],
  ownOf: (extension: PerfExtension) => readonly string[],
): void {
  const options: PerfOptions = command.opts()
  const isGiven = (name: string) => command.getOptionValueSource(name) === 'cli'
  const written = (name: string) => {
    const flag = command.options.find((option) => option.attributeName() === name)!.long!
    return typeof options[name] === 'string' ? `${flag} ${options[name]}` : flag
  }
  for (const extension of extensions) {
    const { leader, unheard } = extension
    if (leader === undefined) continue
    const isAsked = isGiven(leader)
    const [first] = (isAsked ? (unheard?.(options) ?? []) : ownOf(extension)).filter(isGiven)
    if (first === undefined) continue
    command.error(
      isAsked
        ? `error: ${written(first)} means nothing beside ${written(leader)}: leave it out`
        : `error: ${written(first)} means nothing without ${command.options.find((option) => option.attributeName() === leader)!.flags}`,
    )
  }
}

/** Options that say where and how it is told what was measured, which makes no difference to that. */
const told = new Set(['json', 'report', 'latencyReportFile', 'profileExportFile', 'verbose', 'verboseCsv'])

/** The settings of a command line under the names that they have there, ranges as they are written, and which of them it gives. */
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
