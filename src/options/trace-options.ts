import { resolve } from 'node:path'
import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { filePath } from '../base/files.ts'
import { parseOptions, optionsOf, properties } from './options-schema.ts'

/** What is traced: when a request came how far, and the tensors that it gave and got. */
export type TraceLevel = 'TIMESTAMPS' | 'TENSORS'

/**
 * Settings of traces, under Triton's names and with its meanings. At run time `null` makes one of the engine what it was at first, and
 * one of a model what the engine has.
 */
export interface TraceSettings {
  /** What is traced; `'OFF'`, or an empty list, for nothing. Default: `'TIMESTAMPS'` where the engine was made with `trace`, else `'OFF'`. */
  level?: 'OFF' | TraceLevel | readonly TraceLevel[] | null
  /** Each how-manieth request of a caller is traced; what runs for one that is traced is, too. Default 1000. */
  rate?: number | null
  /** How many more traces are begun, of requests of callers; -1 for no limit. Default -1. */
  count?: number | null
  /** Where they are written: a path, or a `file:` URL. A file that is there is overwritten, by the first trace. Needed where the level is not `'OFF'`. */
  file?: string | URL | null
  /** After how many traces another file is begun, whose names then are `file` with `.0`, `.1` and so on behind; 0 for one file. Default 0. */
  logFrequency?: number | null
}

/** Settings of traces from when an engine is made. */
export interface TraceOptions extends TraceSettings {
  /** Settings of models, by their names, instead of those of the engine; what they leave out is as that has it. Default: none. */
  models?: Readonly<Record<string, TraceSettings>>
  /** Most bytes of traces that wait to be written, those included of requests under way; what is beyond is dropped, and counted. At most 256 MiB. Default 16 MiB. */
  maxBufferedBytes?: number
}

/** Settings as they hold. */
export interface ResolvedTraceSettings {
  /** Empty for nothing. */
  readonly level: readonly TraceLevel[]
  /** One of so many requests is traced. */
  readonly rate: number
  /** So many more are traced; -1 for no limit. */
  readonly count: number
  /** Absolute; `null` for none. */
  readonly file: string | null
  /** A file gets so many traces, and then the next one begins; 0 for one file. */
  readonly logFrequency: number
}

/** What was said of some of them; see {@link TraceSettings} for `null`. */
export type GivenTraceSettings = {
  readonly [Name in keyof ResolvedTraceSettings]?: ResolvedTraceSettings[Name] | null
}

/** Traces with their options checked. */
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
  file: nullish(v.custom<string | URL>((given) => filePath(given) !== null, 'a path or a file: URL')),
  logFrequency: nullish(whole(0, 'a whole number of 0 or more')),
}
const settingsSchema = optionsOf(entries)
/** What is written at once is one string, which cannot be much longer. */
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

/** The settings of an engine that was told nothing of traces. */
const off: ResolvedTraceSettings = { level: [], rate: 1000, count: -1, file: null, logFrequency: 0 }

/**
 * @param given as {@link traceSchema} has checked it.
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
 * Settings that are given at run time.
 *
 * @throws InferenceError `ERR_INVALID_ARG` with what was expected and what was received.
 */
export function readTraceSettings(given: unknown): GivenTraceSettings {
  return read(parseOptions(settingsSchema, given, 'settings') as TraceSettings)
}

/** @throws InferenceError `ERR_INVALID_ARG` where something is to be traced to no file. */
export function checkFile(name: string, { level, file }: ResolvedTraceSettings): void {
  if (level.length > 0 && file === null)
    throw invalidArgument(
      `${name}.file`,
      `a path or a file: URL, as the level is ${level.join(' and ')}`,
      undefined,
    )
}

/** Settings with some of them as they are given; those that are `null` or left out stay. */
export function withSettings(
  settings: ResolvedTraceSettings,
  given: GivenTraceSettings,
): ResolvedTraceSettings {
  return { ...settings, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) }
}

function read({ level, file, ...numbers }: TraceSettings): GivenTraceSettings {
  const { rate, count, logFrequency } = numbers
  return {
    ...(level !== undefined && {
      level: level === null ? null : level === 'OFF' ? [] : [...new Set([level].flat())],
    }),
    ...(file !== undefined && { file: file === null ? null : resolve(filePath(file)!) }),
    ...(rate !== undefined && { rate }),
    ...(count !== undefined && { count }),
    ...(logFrequency !== undefined && { logFrequency }),
  }
}
