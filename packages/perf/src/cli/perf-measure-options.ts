import { type Command, InvalidArgumentError, Option } from 'commander'
import { fileErrorText, readRegularTextSync } from 'zerohop/internals'
import type { LevelRange } from '../perf/perf-run.ts'
import { type LoadSettings, measureDefaults, type PerfSettings } from '../perf/perf-settings.ts'

/** Timers cannot resolve higher rates. */
const mostPerSecond = 1e9

/** Options of load and measurement, in commander's form. */
export interface MeasureOptions {
  readonly concurrencyRange?: LevelRange
  readonly requestRateRange?: LevelRange
  readonly requestDistribution: 'constant' | 'poisson'
  readonly requestIntervals?: readonly number[]
  readonly periodicConcurrencyRange?: LevelRange
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
      'concurrent requests; end 0: until -l (default: 1)',
      range(whole(1, mostCallers), true),
    )
    .option(
      '--request-rate-range <start:end:step>',
      'requests per second; end 0: until -l',
      range(above(0, false, mostPerSecond), true),
    )
    .addOption(
      new Option('--request-distribution <name>', 'intervals between requests of --request-rate-range')
        .choices(['constant', 'poisson'])
        .default('constant'),
    )
    .option(
      '--request-intervals <file>',
      'send at intervals from a file, in microseconds, one per line, repeated',
      intervals,
    )
    .option(
      '--periodic-concurrency-range <start:end:step>',
      'concurrent requests, increased by a step after each --request-period answers',
      range(whole(1, mostCallers), false),
    )
    .option(
      '--request-period <count>',
      'answers before --periodic-concurrency-range takes its next step',
      whole(1),
      10,
    )
    .option('--seed <number>', 'seed of random data and intervals', whole(0, 2 ** 32 - 1), 1)
    .optionsGroup('Measurement:')
    .addOption(
      new Option('--measurement-mode <mode>', 'what ends a measurement window')
        .choices(['time_windows', 'count_windows'])
        .default('time_windows'),
    )
    .option(
      '-p, --measurement-interval <ms>',
      'length of a window, times 1.2',
      above(0, false, longestIntervalMs),
      measurementIntervalMs,
    )
    .option(
      '--measurement-request-count <count>',
      'answers per window in count_windows mode',
      whole(1),
      measurementRequestCount,
    )
    .option(
      '-s, --stability-percentage <percent>',
      'how much the last three windows may differ',
      above(0),
      stability * 100,
    )
    .option('-r, --max-trials <count>', 'most windows before a level counts as unstable', whole(1), maxTrials)
    .option(
      '--percentile <number>',
      'latency that must be stable and below --latency-threshold: 1 to 99, or -1 for the average',
      percentile,
      -1,
    )
    .option('-l, --latency-threshold <ms>', 'stop above this latency; 0: no limit', above(0, true), 0)
    .option(
      '--binary-search',
      'find the highest level within --latency-threshold by binary search between start and end',
      false,
    )
    .option('--warmup-request-count <count>', 'requests before the first window', whole(0), 0)
    .option(
      '--goodput <request_latency:ms>',
      'report answers per second within this latency, as genai-perf does; a bare number of milliseconds works too',
      goodput,
    )
    .option('--request-count <count>', 'one window of this many requests; 0: off', whole(0), 0)
}

/** Converts the options; ends the program if they contradict each other. */
export function measureSettings(
  options: MeasureOptions,
  sequences: PerfSettings['sequences'],
  command: Command,
): PerfSettings {
  const load = loadOf(options, command)
  const { binarySearch, latencyThreshold, requestCount } = options
  const error = (text: string) => command.error(`error: ${text}`)
  if ('range' in load && load.range.end === 0 && latencyThreshold === 0)
    error('a range with end 0 needs --latency-threshold to end it')
  if (binarySearch && (!('range' in load) || load.range.end === 0))
    error('--binary-search needs a range with a start and an end')
  if (load.mode === 'periodic-concurrency' && requestCount > 0)
    error('--request-count cannot be used with --periodic-concurrency-range, which ends by itself: omit one')
  const callers = load.mode === 'concurrency' ? Math.max(load.range.start, load.range.end) : 0
  if (requestCount > 0 && requestCount < callers)
    error(
      `--request-count: expected at least ${callers}, one request for each caller of --concurrency-range, received ${requestCount}`,
    )
  if (binarySearch && latencyThreshold === 0) error('--binary-search needs --latency-threshold')
  return {
    load,
    binarySearch,
    latencyThresholdMs: latencyThreshold,
    seed: options.seed,
    sequences,
    measurementMode: options.measurementMode,
    measurementRequestCount: options.measurementRequestCount,
    maxTrials: options.maxTrials,
    warmupRequestCount: options.warmupRequestCount,
    requestCount,
    measurementIntervalMs: options.measurementInterval,
    stability: options.stabilityPercentage / 100,
    percentile: options.percentile === -1 ? null : options.percentile,
    goodputMs: options.goodput ?? null,
  }
}

function loadOf(options: MeasureOptions, command: Command): LoadSettings {
  const given = {
    '--concurrency-range': options.concurrencyRange,
    '--request-rate-range': options.requestRateRange,
    '--request-intervals': options.requestIntervals,
    '--periodic-concurrency-range': options.periodicConcurrencyRange,
  }
  const names = namesOfGiven(given)
  if (names.length > 1) command.error(`error: ${names.join(' and ')} cannot be used together: give one`)
  const { requestRateRange, requestDistribution, requestIntervals, periodicConcurrencyRange } = options
  if (requestRateRange !== undefined)
    return { mode: 'request-rate', range: requestRateRange, distribution: requestDistribution }
  if (requestIntervals !== undefined) return { mode: 'request-intervals', intervalsUs: requestIntervals }
  if (periodicConcurrencyRange !== undefined)
    return {
      mode: 'periodic-concurrency',
      steps: { ...periodicConcurrencyRange, period: options.requestPeriod },
    }
  return { mode: 'concurrency', range: options.concurrencyRange ?? { start: 1, end: 1, step: 1 } }
}

/** The options that have a value. */
export function namesOfGiven(options: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(options).filter((name) => options[name] !== undefined)
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
      `Expected a file with a number of microseconds on each line: ${fileErrorText(error)}.`,
    )
  }
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const values = lines.map(Number)
  if (values.length === 0 || values.some((us) => !(us > 0) || !Number.isFinite(us)))
    throw new InvalidArgumentError('Expected a number of microseconds above 0 on each line.')
  return values
}

/** Most concurrent callers. Each takes some memory. */
export const mostCallers = 200_000

/** An integer from `least` to `most`. */
export const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN
    if (value >= least && value <= most) return value
    throw new InvalidArgumentError(
      `Expected a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}.`,
    )
  }

/** A number above `least` (or equal to it, if allowed), up to `most`. */
export const above =
  (least: number, orEqual = false, most = Number.MAX_VALUE) =>
  (text: string): number => {
    const value = text.trim() === '' ? NaN : Number(text)
    if (value <= most && (value > least || (orEqual && value === least))) return value
    throw new InvalidArgumentError(
      `Expected a number ${orEqual ? `of at least ${least}` : `above ${least}`}${most === Number.MAX_VALUE ? '' : `, and at most ${most}`}.`,
    )
  }

/** Most levels of a range: with more, rounding would lose a step, and a search would never end. */
const mostLevels = 1e9

/** `start:end:step`. Defaults: the end is the start, the step is 1. */
const range =
  (number: (text: string) => number, endMayBe0: boolean) =>
  (text: string): LevelRange => {
    const [start, end = start, step = '1', ...more] = text.split(':') as [string, string?, string?]
    if (more.length > 0) throw new InvalidArgumentError('Expected start:end:step; end and step are optional.')
    const found = {
      start: part('start', start, number),
      end: endMayBe0 && /^0+$/.test(end) ? 0 : part('end', end, number),
      step: part('step', step, number),
    }
    if (found.end !== 0 && found.end < found.start)
      throw new InvalidArgumentError('The end must be at least the start.')
    if (found.end !== found.start && Math.max(found.start, found.end) / found.step > mostLevels)
      throw new InvalidArgumentError(`The step must be larger: it makes more than ${mostLevels} levels.`)
    return found
  }

/** One part of a compound value. Errors name the part. */
function part(name: string, text: string, read: (text: string) => number): number {
  try {
    return read(text)
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    throw new InvalidArgumentError(`The ${name} is '${text}'. ${error.message}`)
  }
}

/** Integers separated by commas. */
export const list =
  (least: number) =>
  (text: string): number[] =>
    text.split(',').map(whole(least))

/** An option that may be given several times. */
export function several(
  flags: string,
  description: string,
  read: (text: string) => unknown,
  shownDefault = 'none',
): Option {
  const add = (text: string, before: readonly unknown[]) => [...before, read(text)]
  return new Option(flags, `${description}; repeatable`).argParser(add).default([], shownDefault)
}

/** A bound of latency in milliseconds, in genai-perf's form (`request_latency:300`), or just the number. */
function goodput(text: string): number {
  const [name, value, ...more] = text.includes(':') ? text.split(':') : ['request_latency', text]
  if (name !== 'request_latency' || more.length > 0)
    throw new InvalidArgumentError('Expected request_latency:<milliseconds>: answers have no tokens to time.')
  return above(0)(value ?? '')
}

/** A percentage between 0 and 100, as a fraction of 1. */
export function share(text: string): number {
  const percent = above(0)(text)
  if (percent < 100) return percent / 100
  throw new InvalidArgumentError('Expected a number between 0 and 100.')
}
