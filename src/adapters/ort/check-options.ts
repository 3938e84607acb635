import type { InferenceSession } from 'onnxruntime-common'
import { invalidArgument, type InferenceErrorCode } from '../../errors.ts'

/** What onnxruntime-node says of a value of an option: fine, of another kind (`TypeError`), or of the right one and wrong (`RangeError`). */
type Verdict = 'fine' | 'kind' | 'range'

interface Rule {
  readonly expected: string
  readonly judge: (value: unknown) => Verdict
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
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
const text = ofKind('a string', (value) => typeof value === 'string')
const flag = ofKind('true or false', (value) => typeof value === 'boolean')
const threads = whole('a whole number, 0 or more', Infinity)
const severity = whole('0, 1, 2, 3 or 4', 4)

/** Of some options `null` is as good as nothing to onnxruntime-node. */
function orNull({ expected, judge }: Rule): Rule {
  return { expected, judge: (value) => (value === null ? 'fine' : judge(value)) }
}

function areEntries(value: unknown): boolean {
  return (
    isObject(value) && Object.values(value).every((entry) => typeof entry === 'string' || areEntries(entry))
  )
}

const sessionRules: Readonly<Record<string, Rule>> = {
  executionProviders: orNull(ofKind('an array of execution providers', Array.isArray)),
  intraOpNumThreads: threads,
  interOpNumThreads: threads,
  graphOptimizationLevel: oneOf('disabled', 'basic', 'extended', 'layout', 'all'),
  executionMode: oneOf('sequential', 'parallel'),
  enableCpuMemArena: flag,
  enableMemPattern: flag,
  enableProfiling: flag,
  profileFilePrefix: text,
  optimizedModelFilePath: text,
  logId: text,
  logSeverityLevel: severity,
  extra: ofKind('an object of strings, or of such objects', areEntries),
  externalData: orNull(
    ofKind(
      'an array of files',
      (value) =>
        Array.isArray(value) &&
        value.every((file) => typeof file === 'string' || (typeof file === 'object' && file !== null)),
    ),
  ),
  preferredOutputLocation: orNull(
    ofKind(
      'a location of data, or one for each output',
      (value) =>
        isObject(value) ||
        ['none', 'cpu', 'cpu-pinned', 'texture', 'gpu-buffer', 'ml-tensor'].includes(value as string),
    ),
  ),
}

const runRules: Readonly<Record<string, Rule>> = { logSeverityLevel: severity, tag: text }

/**
 * Checks the options of a session as onnxruntime-node does, for code that looks for its errors; whether a right one can be served, the load finds out.
 *
 * @throws TypeError, RangeError with the fields of an InferenceError: `code`, `argument`, `expected`, `received`.
 */
export function checkSessionOptions(options: InferenceSession.SessionOptions): void {
  check('sessionOptions', sessionRules, options)
}

/** The same of the options of a run. */
export function checkRunOptions(options: InferenceSession.RunOptions): void {
  check('runOptions', runRules, options)
}

function check(where: string, rules: Readonly<Record<string, Rule>>, options: object): void {
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(rules, name) || value === undefined) continue
    const { expected, judge } = rules[name]!
    const verdict = judge(value)
    if (verdict === 'fine') continue
    const isOwn = name === 'externalData' || where === 'runOptions' // which are read here
    throw wrongOption(
      verdict === 'kind' ? TypeError : RangeError,
      isOwn ? name : `${where}.${name}`,
      expected,
      value,
      isOwn ? 'ERR_INVALID_ARG' : 'ERR_MODEL_CONFIG',
    )
  }
}

function wrongOption(
  Kind: TypeErrorConstructor | RangeErrorConstructor,
  option: string,
  expected: string,
  received: unknown,
  code: InferenceErrorCode,
): Error {
  const { message, argument, received: shown } = invalidArgument(option, expected, received, { code })
  return Object.assign(new Kind(message), { code, argument, expected, received: shown })
}
