import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { InferenceSession } from 'onnxruntime-common'
import { filePath } from '../../base/files.ts'
import { type InferenceError, invalidArgument } from '../../errors.ts'
import type { ModelOptions } from '../../options/model-config.ts'
import type { SessionOptions } from '../../options/session-options.ts'
import { warn } from '../../base/warnings.ts'

/** The `logSeverityLevel` that prints errors. */
const printErrors = 3

/** The options that this file reads. The others of {@link sessionRules} are passed to the model unchanged. */
const readHere: readonly string[] = ['executionProviders', 'externalData', 'preferredOutputLocation']

/**
 * Converts session options to model options. Options without effect are dropped with a warning; the load
 * checks the others. `null` counts as absent where onnxruntime-node accepts it.
 *
 * Without `executionProviders` a session runs on the CPU, as in onnxruntime-node, unless `defaults` name
 * providers.
 *
 * @param defaults options for every session. Those of a session take precedence.
 */
export async function modelSettings(
  options: InferenceSession.SessionOptions,
  defaults: ModelOptions,
): Promise<ModelOptions> {
  const given = Object.entries(options).filter(
    ([name, value]) => isGiven(value) && !isNoise(name, value) && !isUnread(name, value),
  )
  for (const [name] of given)
    if (!Object.hasOwn(sessionRules, name))
      warnIgnored(`The session option '${name}'`, 'zerohop has no option of that name.')
  checkOutputLocation(options.preferredOutputLocation)
  const sessionOptions: Record<string, unknown> = {
    ...defaults.sessionOptions,
    ...Object.fromEntries(
      given.filter(([name]) => Object.hasOwn(sessionRules, name) && !readHere.includes(name)),
    ),
  }
  if (isGiven(options.extra)) sessionOptions['extra'] = fullNames(options.extra)
  if (isGiven(options.externalData))
    sessionOptions['externalData'] = await externalFiles(options.externalData)
  return {
    ...defaults,
    ...providers(options, defaults),
    ...(Object.keys(sessionOptions).length > 0 && { sessionOptions: sessionOptions as SessionOptions }),
  }
}

/**
 * Errors are thrown as exceptions. Printing them would also print those of trial rows during a load, some of
 * which are meant to fail.
 */
function isNoise(name: string, value: unknown): boolean {
  return name === 'logSeverityLevel' && value === printErrors
}

/** Options that onnxruntime-node does not read, or only beside `enableProfiling`, may have any value there. */
function isUnread(name: string, value: unknown): boolean {
  return (
    (name === 'profileFilePrefix' && typeof value !== 'string') ||
    (name === 'logVerbosityLevel' && typeof value !== 'number')
  )
}

function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== undefined && value !== null
}

function providers(
  { executionProviders }: InferenceSession.SessionOptions,
  defaults: ModelOptions,
): Pick<ModelOptions, 'executionProviders'> {
  if (isGiven(executionProviders) && executionProviders.length > 0) return { executionProviders }
  return defaults.executionProviders === undefined && defaults.instanceGroup === undefined
    ? { executionProviders: ['cpu'] }
    : {}
}

function checkOutputLocation(location: InferenceSession.SessionOptions['preferredOutputLocation']): void {
  if (!isGiven(location)) return
  const wanted = typeof location === 'string' ? [location] : Object.values(location)
  if (wanted.some((each) => each !== 'cpu'))
    warnIgnored(
      "The session option 'preferredOutputLocation'",
      'answers are always in memory of the caller (cpu).',
    )
}

/**
 * External data files in all forms that onnxruntime-common accepts: bytes, a `Blob`, or a location. The `path` of a
 * result is the name by which the model refers to the file.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, or the error of reading a file.
 */
async function externalFiles(
  files: NonNullable<InferenceSession.SessionOptions['externalData']>,
): Promise<NonNullable<SessionOptions['externalData']>> {
  if (!Array.isArray(files)) throw invalidArgument('externalData', 'an array of files', files)
  return Promise.all(
    files.map(async (file) =>
      typeof file === 'string'
        ? { path: basename(file), data: await contentOf(file) }
        : { path: file.path, data: await contentOf(file.data) },
    ),
  )
}

function isBytes(data: unknown): data is Uint8Array | ArrayBufferLike {
  return data instanceof Uint8Array || data instanceof ArrayBuffer || data instanceof SharedArrayBuffer
}

async function contentOf(data: unknown): Promise<Uint8Array> {
  if (isBytes(data)) return data instanceof Uint8Array ? data : new Uint8Array(data)
  if (data instanceof Blob) return new Uint8Array(await data.arrayBuffer())
  const path = filePath(data)
  if (path === null) throw invalidArgument('externalData', 'bytes, a Blob or the path of a file', data)
  return readFile(path)
}

/**
 * How onnxruntime-node judges an option's value: fine, wrong type (`TypeError`), or right type with a wrong
 * value (`RangeError`).
 */
type Verdict = 'fine' | 'kind' | 'range'

interface Rule {
  readonly expected: string
  readonly judge: (value: unknown) => Verdict
}

/** Arrays and functions are objects as well. */
const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function'
const ofKind = (expected: string, isRight: (value: unknown) => boolean): Rule => ({
  expected,
  judge: (value) => (isRight(value) ? 'fine' : 'kind'),
})
const oneOf = (...names: readonly string[]): Rule =>
  ofKind(`one of ${names.join(', ')}`, (value) => names.includes(value as string))
const whole = (expected: string, most: number): Rule => ({
  expected,
  judge: (value) =>
    typeof value !== 'number'
      ? 'kind'
      : Number.isInteger(value) && value >= 0 && value <= most
        ? 'fine'
        : 'range',
})
const anything = ofKind('any value', () => true)
const text = ofKind('a string', (value) => typeof value === 'string')
const flag = ofKind('true or false', (value) => typeof value === 'boolean')
const threads = whole('a whole number, 0 or more', 0xffff_ffff)
const severity = whole('0, 1, 2, 3 or 4', 4)

/** For some options onnxruntime-node accepts `null` as absent. */
function orNull({ expected, judge }: Rule): Rule {
  return { expected, judge: (value) => (value === null ? 'fine' : judge(value)) }
}

/** The entries of `extra` under their full names, as onnxruntime-node reads them: the last of a name counts. */
function fullNames(extra: object, prefix = ''): Record<string, unknown> {
  const entries: [string, unknown][] = []
  for (const name in extra) {
    const value = (extra as Record<string, unknown>)[name]
    if (isObject(value)) entries.push(...Object.entries(fullNames(value, `${prefix}${name}.`)))
    else entries.push([prefix + name, value])
  }
  return Object.fromEntries(entries)
}

function areTexts(extra: unknown): boolean {
  return isObject(extra) && Object.values(fullNames(extra)).every((value) => typeof value === 'string')
}

function isExternalFile(file: unknown): boolean {
  if (typeof file === 'string') return true
  if (!isObject(file)) return false
  const { path, data } = file as { path?: unknown; data?: unknown }
  return typeof path === 'string' && (isBytes(data) || data instanceof Blob || filePath(data) !== null)
}

/** Whether a tensor may lie there. A disposed one has the location `none`. */
export function isLocation(value: unknown): boolean {
  return ['cpu', 'cpu-pinned', 'texture', 'gpu-buffer', 'ml-tensor'].includes(value as string)
}

const sessionRules: Readonly<Record<string, Rule>> = {
  executionProviders: orNull(
    ofKind(
      'an array of execution providers',
      (value) => !value || (Array.isArray(value) && value.every(isGiven)),
    ),
  ),
  intraOpNumThreads: threads,
  interOpNumThreads: threads,
  graphOptimizationLevel: oneOf('disabled', 'basic', 'extended', 'layout', 'all'),
  executionMode: oneOf('sequential', 'parallel'),
  enableCpuMemArena: flag,
  enableMemPattern: flag,
  enableProfiling: flag,
  profileFilePrefix: anything, // checked beside enableProfiling
  freeDimensionOverrides: anything, // checked by the load
  freeDimensionOverridesByDenotation: anything,
  logVerbosityLevel: anything,
  optimizedModelFilePath: text,
  logId: text,
  logSeverityLevel: severity,
  extra: ofKind('an object of strings, or of such objects', areTexts),
  externalData: orNull(
    ofKind(
      'an array of files: paths, or { path, data }',
      (value) => Array.isArray(value) && value.every(isExternalFile),
    ),
  ),
  preferredOutputLocation: orNull(
    ofKind('a location of data, or one for each output', (value) =>
      isObject(value) ? Object.values(value).every(isLocation) : isLocation(value),
    ),
  ),
}

const runRules: Readonly<Record<string, Rule>> = { logSeverityLevel: severity, tag: text }

/**
 * Checks session options as onnxruntime-node does, for code that checks for its errors. Whether a valid
 * option is supported is checked by the load.
 *
 * @returns a copy, with the options that an object inherits.
 * @throws TypeError, RangeError with the fields of an InferenceError: `code`, `argument`, `expected`,
 * `received`.
 */
export function checkSessionOptions(
  options: InferenceSession.SessionOptions,
  defaults: ModelOptions,
): InferenceSession.SessionOptions {
  const read = check('sessionOptions', sessionRules, options)
  const { profileFilePrefix } = { ...defaults.sessionOptions, ...read }
  if (read.enableProfiling === true && typeof profileFilePrefix !== 'string')
    throw wrongOption('profileFilePrefix', 'a string, beside enableProfiling', profileFilePrefix)
  return read
}

/** Checks run options in the same way. */
export function checkRunOptions(options: InferenceSession.RunOptions): InferenceSession.RunOptions {
  return check('runOptions', runRules, options)
}

/** The error for a `preferredOutputLocation` of an output that the model does not have, or `null`. */
export function wrongOutputName(
  { preferredOutputLocation: locations }: InferenceSession.SessionOptions,
  outputs: readonly string[],
): Error | null {
  const other = isObject(locations)
    ? Object.keys(locations).find((name) => !outputs.includes(name))
    : undefined
  if (other === undefined) return null
  return wrongOption('preferredOutputLocation', `names of outputs (${outputs.join(', ')})`, other)
}

function wrongOption(name: string, expected: string, received: unknown): Error {
  const details = { code: 'ERR_MODEL_CONFIG' } as const
  return errorOf(TypeError, invalidArgument(`sessionOptions.${name}`, expected, received, details))
}

function check<Options extends object>(
  where: string,
  rules: Readonly<Record<string, Rule>>,
  options: Options,
): Options {
  const all = options as Readonly<Record<string, unknown>>
  const read = { ...all }
  for (const [name, { expected, judge }] of Object.entries(rules)) {
    if (!(name in all)) continue
    const value = (read[name] = all[name])
    const verdict = value === undefined ? 'fine' : judge(value)
    if (verdict === 'fine') continue
    const isOwn = name === 'externalData' || where === 'runOptions' // which this file reads
    throw errorOf(
      verdict === 'kind' ? TypeError : RangeError,
      invalidArgument(isOwn ? name : `${where}.${name}`, expected, value, {
        code: isOwn ? 'ERR_INVALID_ARG' : 'ERR_MODEL_CONFIG',
      }),
    )
  }
  return read as Options
}

/** An InferenceError as an error of a class that code for onnxruntime-node looks for, with the same fields. */
export function errorOf(Kind: TypeErrorConstructor | RangeErrorConstructor, error: InferenceError): Error {
  const { name: _, ...fields } = error
  return Object.assign(new Kind(error.message, { cause: error.cause }), fields)
}

const told = new Set<string>()

/** Warns of an option or call without effect, once per process for each. */
export function warnIgnored(what: string, why: string): void {
  if (told.has(what)) return
  told.add(what)
  warn('ZEROHOP_ORT_IGNORED', `${what} is ignored: ${why}`)
}
