import { resolve } from 'node:path'
import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { filePath } from '../base/files.ts'
import { fileOrUrl, parseOptions, optionsOf, properties } from './options-schema.ts'
import { defined } from './plain-options.ts'

/** What is traced: the timestamps of a request, or its input and output tensors. */
export type TraceLevel = 'TIMESTAMPS' | 'TENSORS'

/**
 * Trace settings, with Triton's names and meanings. At run time, `null` resets a setting of the engine to its initial
 * value, and a setting of a model to the engine's.
 */
export interface TraceSettings {
  /**
   * What is traced; `'OFF'`, or an empty list, for nothing. Default: `'TIMESTAMPS'` for an engine created with `trace`,
   * else `'OFF'`.
   */
  level?: 'OFF' | TraceLevel | readonly TraceLevel[] | null
  /** Traces one in this many requests of callers, with all runs made for it. Default 1000. */
  rate?: number | null
  /** Number of further traces of callers' requests; -1 for no limit. Default -1. */
  count?: number | null
  /**
   * The trace file, as a path or a `file:` URL. The first trace overwrites an existing file. Required unless the level
   * is `'OFF'`. Default: none.
   */
  file?: string | URL | null
  /**
   * Number of traces per file: the files are then named `file` with `.0`, `.1` and so on appended. 0: one file. Default
   * 0.
   */
  logFrequency?: number | null
}

/** Trace settings of a new engine. */
export interface TraceOptions extends TraceSettings {
  /** Settings of models by name, which override the engine's. Default: none. */
  models?: Readonly<Record<string, TraceSettings>>
  /**
   * Most bytes of traces that wait to be written, including those of requests in flight; further ones are dropped, and
   * counted. At most 256 MiB. Default 16 MiB.
   */
  maxBufferedBytes?: number
}

/** Trace settings with defaults in place. */
export interface ResolvedTraceSettings {
  /** Empty for nothing. */
  readonly level: readonly TraceLevel[]
  /** Traces one in this many requests. */
  readonly rate: number
  /** Number of further traces; -1 for no limit. */
  readonly count: number
  /** Absolute; `null` for none. */
  readonly file: string | null
  /** Number of traces per file; 0 for one file. */
  readonly logFrequency: number
}

/** Some of the settings; see {@link TraceSettings} for `null`. */
export type GivenTraceSettings = {
  readonly [Name in keyof ResolvedTraceSettings]?: ResolvedTraceSettings[Name] | null
}

/** {@link TraceOptions}, checked. */
export interface ResolvedTraceOptions {
  readonly settings: ResolvedTraceSettings
  readonly models: ReadonlyMap<string, GivenTraceSettings>
  readonly maxBufferedBytes: number
}

const level = v.picklist(['TIMESTAMPS', 'TENSORS'])
const nullish = <Schema extends v.GenericSchema>(schema: Schema) => v.optional(v.nullable(schema))
const whole = (least: number, message: string) =>
  v.custom<number>((given) => Number.isSafeInteger(given) && (given as number) >= least, message)

const entries = {
  level: nullish(
    v.custom<'OFF' | TraceLevel | readonly TraceLevel[]>(
      (given) => given === 'OFF' || v.is(v.union([level, v.array(level)]), given),
      "'OFF', 'TIMESTAMPS', 'TENSORS' or a list of the last two",
    ),
  ),
  rate: nullish(whole(1, 'a whole number of 1 or more')),
  count: nullish(whole(-1, 'a whole number, or -1 for no limit')),
  file: nullish(fileOrUrl),
  logFrequency: nullish(whole(0, 'a whole number of 0 or more')),
}
const settingsSchema = optionsOf(entries)
/** One write is one string, which cannot be much longer. */
const mostBufferedBytes = 2 ** 28
const bytes = v.pipe(
  whole(0, 'a whole number of bytes'),
  v.maxValue(mostBufferedBytes, `at most ${mostBufferedBytes} bytes`),
)

/** Schema of `EngineOptions.trace`. */
export const traceSchema = v.optional(
  optionsOf({
    ...entries,
    models: v.optional(v.pipe(properties, v.record(v.string(), settingsSchema))),
    maxBufferedBytes: v.optional(bytes),
  }),
)

/** The settings of an engine without trace options. */
const off: ResolvedTraceSettings = { level: [], rate: 1000, count: -1, file: null, logFrequency: 0 }

/**
 * @param given options checked by {@link traceSchema}.
 * @throws InferenceError `ERR_INVALID_ARG` for a level without a file.
 */
export function resolveTraceOptions(given: TraceOptions | undefined): ResolvedTraceOptions {
  if (given === undefined)
    return { settings: off, models: new Map(), maxBufferedBytes: defaultMaxBufferedBytes }
  const { models = {}, maxBufferedBytes = defaultMaxBufferedBytes, ...own } = given
  const settings = withSettings({ ...off, level: ['TIMESTAMPS'] }, read(own))
  checkFile('options.trace', settings)
  const ofModels = new Map(Object.entries(models).map(([name, settings]) => [name, read(settings)]))
  for (const [name, ofModel] of ofModels)
    checkFile(`options.trace.models.${name}`, withSettings(settings, ofModel))
  return { settings, models: ofModels, maxBufferedBytes }
}

const defaultMaxBufferedBytes = 16 * 2 ** 20

/**
 * Reads settings given at run time.
 *
 * @throws InferenceError `ERR_INVALID_ARG` with what was expected and what was received.
 */
export function readTraceSettings(given: unknown): GivenTraceSettings {
  return read(parseOptions(settingsSchema, given, 'settings') as TraceSettings)
}

/** @throws InferenceError `ERR_INVALID_ARG` if the level is on and there is no file. */
export function checkFile(name: string, { level, file }: ResolvedTraceSettings): void {
  if (level.length > 0 && file === null)
    throw invalidArgument(
      `${name}.file`,
      `a path or a file: URL, as the level is ${level.join(' and ')}`,
      undefined,
    )
}

/** The settings with some of them replaced; those that are `null` or left out stay. */
export function withSettings(
  settings: ResolvedTraceSettings,
  given: GivenTraceSettings,
): ResolvedTraceSettings {
  return { ...settings, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) }
}

function read({ level, file, ...numbers }: TraceSettings): GivenTraceSettings {
  return defined({
    ...numbers,
    level: level === 'OFF' ? [] : level && [...new Set([level].flat())],
    file: file && resolve(filePath(file)!),
  })
}
