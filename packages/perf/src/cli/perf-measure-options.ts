import { type Command, InvalidArgumentError, Option } from 'commander'
import { fileErrorText, readRegularTextSync } from 'zerohop/internals'
import { type LoadSettings, measureDefaults, type PerfSettings } from '../perf/perf-settings.ts'

/** Timers cannot resolve higher rates. */
const mostPerSecond = 1e9

type Range = { readonly start: number; readonly end: number; readonly step: number }

/** Options of load and measurement, in commander's form. */
export interface MeasureOptions {
  readonly concurrencyRange?: Range
  readonly requestRateRange?: Range
  readonly requestDistribution: 'constant' | 'poisson'
  readonly requestIntervals?: readonly number[]
  readonly periodicConcurrencyRange?: Range
  readonly requestPeriod: number
  readonly measurementMode: 'time_windows' | 'count_windows'
  readonly measurementInterval: number
  readonly measurementRequestCount: number
  readonly stabilityPercentage: number
  readonly maxTrials: number
  readonly percentile: number
  readonly latencyThreshold: number
  readonly binarySearch: boolean
  readonly warmupRequestCount: number
  readonly requestCount: number
  readonly seed: number
  readonly goodput?: number
}

/** A day. Node.js's timers have a limit, beyond which they do not wait at all. */
const longestIntervalMs = 86_400_000

/** Adds the options to a command. */
export function addMeasureOptions(command: Command): Command {
  const { measurementIntervalMs, measurementRequestCount, stability, maxTrials } = measureDefaults
  return command
    .optionsGroup('Load:')
    .option(
      '--concurrency-range <start:end:step>',
      'requests at once; end 0: until --latency-threshold (default: 1)',
      range(whole(1, mostCallers), true),
    )
    .option(
      '--request-rate-range <start:end:step>',
      'requests a second, sent whatever becomes of those before; end 0: until --latency-threshold',
      range(above(0, false, mostPerSecond), true),
    )
    .addOption(
      new Option('--request-distribution <name>', 'intervals of --request-rate-range')
        .choices(['constant', 'poisson'])
        .default('constant'),
    )
    .option(
      '--request-intervals <file>',
      'send by the intervals of a file: microseconds, one a line, begun again at its end',
      intervals,
    )
    .option(
      '--periodic-concurrency-range <start:end:step>',
      'requests at once, more of them after every --request-period answers',
      range(whole(1, mostCallers), false),
    )
    .option(
      '--request-period <count>',
      'answers after which --periodic-concurrency-range goes on',
      whole(1),
      10,
    )
    .option('--seed <number>', 'of what is random: data and intervals', whole(0, 2 ** 32 - 1), 1)
    .optionsGroup('Measurement:')
    .addOption(
      new Option('--measurement-mode <mode>', 'what ends a window')
        .choices(['time_windows', 'count_windows'])
        .default('time_windows'),
    )
    .option(
      '-p, --measurement-interval <ms>',
      'length of a window by time, which lasts 1.2 times as long',
      above(0, false, longestIntervalMs),
      measurementIntervalMs,
    )
    .option(
      '--measurement-request-count <count>',
      'answers of a window by count',
      whole(1),
      measurementRequestCount,
    )
    .option(
      '-s, --stability-percentage <percent>',
      'by how much the last three windows may differ',
      above(0),
      stability * 100,
    )
    .option('-r, --max-trials <count>', 'windows until they have to agree', whole(1), maxTrials)
    .option(
      '--percentile <number>',
      'the latency that has to be stable and below --latency-threshold, 1 to 99; -1: the average',
      percentile,
      -1,
    )
    .option(
      '-l, --latency-threshold <ms>',
      'latency at which the search for a level ends; 0: none',
      above(0, true),
      0,
    )
    .option(
      '--binary-search',
      'look for the level at which --latency-threshold is reached by halves, between start and end',
      false,
    )
    .option('--warmup-request-count <count>', 'requests before the first window', whole(0), 0)
    .option(
      '--goodput <request_latency:ms>',
      'tell how many answers a second are within so many milliseconds, as genai-perf; the number alone will do',
      goodput,
    )
    .option(
      '--request-count <count>',
      'measure exactly so many requests, as one window; 0: by windows',
      whole(0),
      0,
    )
}

/** Converts the options; ends the program if they contradict each other. */
export function measureSettings(
  options: MeasureOptions,
  sequences: PerfSettings['sequences'],
  command: Command,
): PerfSettings {
  const load = loadOf(options, command)
  const {
    binarySearch,
    latencyThreshold,
    stabilityPercentage,
    percentile: given,
    maxTrials,
    measurementMode,
    measurementRequestCount,
    warmupRequestCount,
    requestCount,
    seed,
  } = options
  const error = (text: string) => command.error(`error: ${text}`)
  if ('range' in load && load.range.end === 0 && latencyThreshold === 0)
    error('a range whose end is 0 needs --latency-threshold, at which it ends')
  if (binarySearch && (!('range' in load) || load.range.end === 0))
    error('--binary-search needs a range with a start and an end')
  if (load.mode === 'periodic-concurrency' && requestCount > 0)
    error('--request-count and --periodic-concurrency-range cannot be given together: that ends by itself')
  const callers = load.mode === 'concurrency' ? Math.max(load.range.start, load.range.end) : 0
  if (requestCount > 0 && requestCount < callers)
    error(
      `--request-count ${requestCount} leaves some of ${callers} callers without a request: give at least as many as --concurrency-range has`,
    )
  if (binarySearch && latencyThreshold === 0) error('--binary-search needs --latency-threshold')
  return {
    load,
    binarySearch,
    latencyThresholdMs: latencyThreshold,
    seed,
    sequences,
    measurementMode,
    measurementRequestCount,
    maxTrials,
    warmupRequestCount,
    requestCount,
    measurementIntervalMs: options.measurementInterval,
    stability: stabilityPercentage / 100,
    percentile: given === -1 ? null : given,
    goodputMs: options.goodput ?? null,
  }
}

function loadOf(
  {
    concurrencyRange,
    requestRateRange,
    requestDistribution,
    requestIntervals,
    periodicConcurrencyRange,
    requestPeriod,
  }: MeasureOptions,
  command: Command,
): LoadSettings {
  const given = {
    '--concurrency-range': concurrencyRange,
    '--request-rate-range': requestRateRange,
    '--request-intervals': requestIntervals,
    '--periodic-concurrency-range': periodicConcurrencyRange,
  }
  const names = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  if (names.length > 1) command.error(`error: ${names.join(' and ')} cannot be given together`)
  if (requestRateRange !== undefined)
    return { mode: 'request-rate', range: requestRateRange, distribution: requestDistribution }
  if (requestIntervals !== undefined) return { mode: 'request-intervals', intervalsUs: requestIntervals }
  if (periodicConcurrencyRange !== undefined)
    return { mode: 'periodic-concurrency', steps: { ...periodicConcurrencyRange, period: requestPeriod } }
  return { mode: 'concurrency', range: concurrencyRange ?? { start: 1, end: 1, step: 1 } }
}

function percentile(text: string): number {
  return text === '-1' ? -1 : whole(1, 99)(text)
}

function intervals(path: string): number[] {
  let text: string
  try {
    text = readRegularTextSync(path)
  } catch (error) {
    throw new InvalidArgumentError(
      `It has to be the path of a file with a number of microseconds on each line: ${fileErrorText(error)}.`,
    )
  }
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const values = lines.map(Number)
  if (values.length === 0 || values.some((us) => !(us > 0) || !Number.isFinite(us)))
    throw new InvalidArgumentError('It has to have a number of microseconds above 0 on each line.')
  return values
}

/**
 * Parsers of option values for `zerohop perf`: each takes an option's text and returns its value, or says
 * what it must be.
 */

/** Most concurrent callers: each takes some memory, whatever it sends. */
export const mostCallers = 200_000

/** An integer from `least` to `most`. */
export const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN
    if (value >= least && value <= most) return value
    throw new InvalidArgumentError(
      `It has to be a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}.`,
    )
  }

/** A number above `least` (or equal to it, if allowed), up to `most`. */
export const above =
  (least: number, orEqual = false, most = Number.MAX_VALUE) =>
  (text: string): number => {
    const value = text.trim() === '' ? NaN : Number(text)
    if (value <= most && (value > least || (orEqual && value === least))) return value
    throw new InvalidArgumentError(
      `It has to be a number ${orEqual ? `of at least ${least}` : `above ${least}`}${most === Number.MAX_VALUE ? '' : `, and at most ${most}`}.`,
    )
  }

/** Most levels of a range: with more, rounding would lose a step, and a search would never end. */
const mostLevels = 1e9

/** `start:end:step`. Defaults: the end is the start, the step is 1. */
const range =
  (number: (text: string) => number, endMayBe0: boolean) =>
  (text: string): { start: number; end: number; step: number } => {
    const [start, end = start, step = '1', ...more] = text.split(':') as [string, string?, string?]
    if (more.length > 0)
      throw new InvalidArgumentError('It has to be start:end:step, of which end and step may be left out.')
    const found = {
      start: part('start', start, number),
      end: endMayBe0 && /^0+$/.test(end) ? 0 : part('end', end, number),
      step: part('step', step, number),
    }
    if (found.end !== 0 && found.end < found.start)
      throw new InvalidArgumentError('Its end has to be at least its start.')
    if (found.end !== found.start && Math.max(found.start, found.end) / found.step > mostLevels)
      throw new InvalidArgumentError(
        `Its step has to be larger: it leads over more than ${mostLevels} levels.`,
      )
    return found
  }

/** One part of a compound value. Errors name the part. */
function part(name: string, text: string, read: (text: string) => number): number {
  try {
    return read(text)
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    throw new InvalidArgumentError(
      `Its ${name} is '${text}'. ${error.message.replace(/^It has/, 'That has')}`,
    )
  }
}

/** Integers separated by commas. */
export const list =
  (least: number) =>
  (text: string): number[] =>
    text.split(',').map(whole(least))

/** Adds a value to the earlier ones, for options that may be given several times. */
export const collect =
  <T>(read: (text: string) => T) =>
  (text: string, before: readonly T[]): T[] => [...before, read(text)]

/** A bound of latency in milliseconds, in genai-perf's form (`request_latency:300`), or just the number. */
function goodput(text: string): number {
  const [name, value, ...more] = text.includes(':') ? text.split(':') : ['request_latency', text]
  if (name !== 'request_latency' || more.length > 0)
    throw new InvalidArgumentError(
      'It has to be request_latency:<milliseconds>: answers here have no tokens, and none of their times.',
    )
  return above(0)(value ?? '')
}

/** A percentage between 0 and 100, as a fraction of 1. */
export function share(text: string): number {
  const percent = above(0)(text)
  if (percent < 100) return percent / 100
  throw new InvalidArgumentError('It has to be a number between 0 and 100.')
}
