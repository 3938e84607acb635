import { maxPriorityLevel, type BatchReason } from './batching.ts'
import { invalidArgument, listNames, type InferenceError } from '../errors.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import {
  durationShown,
  isAbortSignal,
  isDuration,
  isPlainObject,
  typed,
  unknownOption,
} from './plain-options.ts'

/**
 * Options of one `infer()`. `Report` says whether a report may be requested: use `InferOptions<string, boolean>` for
 * options that are built elsewhere and may do either.
 */
export interface InferOptions<
  Output extends string = string,
  Report extends boolean = false,
> extends SequenceInferOptions {
  /**
   * Withdraws the request. A queued request leaves the queue at once; the result of a running one is dropped. Either
   * way the call rejects with the signal's own reason. With the native executor, a run that no other request shares
   * stops at its next operator. Default: none.
   */
  signal?: AbortSignal | undefined
  /**
   * Milliseconds the request may wait in the queue; then `ERR_TIMEOUT`. For a running request, see `maxRunMs`. If the
   * model has a `defaultTimeoutMs`, this option applies only when it is shorter and `allowTimeoutOverride` is set;
   * otherwise it is ignored with one warning. Default: no limit.
   */
  timeoutMs?: number | undefined
  /**
   * Milliseconds a run that contains the request may take; then `ERR_TIMEOUT`. The run is stopped, and its other
   * requests run again without this one. Default: the model's `maxRunMs`.
   */
  maxRunMs?: number | undefined
  /**
   * Milliseconds from this call until the answer is useless. Run times are estimated from earlier runs: a request that
   * cannot be answered in time is refused at once with `ERR_DEADLINE`, and a queued one that no longer can leaves the
   * queue with that error. A run that has started is delivered, late or not. Default: the model's `latencyTargetMs`.
   */
  deadlineMs?: number | undefined
  /**
   * Priority level; 1 is served first. 0, and any number above the model's `priorityLevels`, means its
   * `defaultPriorityLevel`; a number that is too high also gives one warning. Default: `defaultPriorityLevel`.
   */
  priority?: number | undefined
  /** Names of the outputs to return, each once. Default: all that can be served. */
  outputs?: readonly Output[] | undefined
  /** Free text that errors of this request carry. Default: none. */
  requestId?: string | undefined
  /**
   * Whether to answer with `{ outputs, report }`, where the {@link BatchReport} says how the request was batched.
   * Default `false`.
   */
  report?: Report
  /** Overrides the model's `splitOversized` for this request. Default: the model's. */
  splitOversized?: boolean | undefined
}

/** The result of a request with `report: true`. */
export interface ReportedOutputs<O> {
  /** The result without a report. */
  outputs: O
  /** How the request was batched and run. */
  report: BatchReport
}

/** How a request was batched and run. */
export interface BatchReport {
  /** Number of the run, counted per model; the same for all requests of the run. */
  batchId: number
  /** Rows of the run; 1 for a request of more rows than fit one, which runs alone. */
  batchSize: number
  /** Length to which the padded dimension was filled; `null` for a model without padding. */
  paddedTo: number | null
  /** Index of the request's first row in the run. */
  position: number
  /** Milliseconds from `infer()` to the start of the run. */
  queuedMs: number
  /** Milliseconds of ONNX Runtime's run. */
  computeMs: number
  /** Why the batch was closed. */
  reason: BatchReason
  /** Whether the application's thread ran it, or half of it, instead of a worker. */
  inline: boolean
  /** The instance that ran it: the model's name and a number. */
  instance: string
  /** Number of runs the request took part in; more than 1 after another request of the batch, or a worker, failed. */
  attempts: number
  /** For a split request: the report of each part. The first part's report is repeated above. */
  parts?: BatchReport[]
  /**
   * For a pipeline: a report of each step that ran, in the order they ended. Above, `batchId` is the number of the
   * request, `batchSize` its rows, `queuedMs` and `computeMs` the sums over the steps, and `reason` that of the last
   * step.
   */
  steps?: StepReport[]
  /**
   * The answer came from the response cache. The report then describes the original run, with `queuedMs` and
   * `computeMs` 0. Only with `responseCache`.
   */
  cached?: true
  /** The request shared the run of an equal request that came earlier. Only with `coalesce`. */
  coalesced?: true
}

/** How a step of a pipeline was batched and run. */
export interface StepReport extends BatchReport {
  /** Its name in the pipeline. */
  step: string
  /** The name of its model, and the version that answered. */
  model: string
  version: number
  /** Number of the pipeline's request, counted per pipeline; the same for all its steps. */
  parentId: number
  /** Milliseconds from the pipeline's `infer()` until the step could start. */
  beganMs: number
}

/** A sequence id: a whole number other than 0, or a non-empty string. */
export type SequenceId = number | bigint | string

/** The sequence options of one `infer()`, in Triton's terms; see {@link SequenceConfig}. */
export interface SequenceInferOptions {
  /** The sequence of the request, for a model with `sequence` in its configuration. Default: none. */
  sequenceId?: SequenceId | undefined
  /** Whether the sequence starts with this request. Any state under its id is discarded. Default `false`. */
  sequenceStart?: boolean | undefined
  /** Whether the sequence ends with this request; its id is then free. Default `false`. */
  sequenceEnd?: boolean | undefined
}

/** The sequence options of one request, checked. */
export interface SequenceOptions {
  readonly id: SequenceId
  readonly start: boolean
  readonly end: boolean
}

/** Which answer a request wants. */
export interface AnswerOptions {
  /** Indices of the requested outputs; `null` for all. */
  readonly outputs: readonly number[] | null
  readonly requestId: string | undefined
  readonly report: boolean
}

/** Options of a call that are used as they are given. */
type AsGiven = {
  readonly [
    Name in Exclude<keyof InferOptions, keyof AnswerOptions | keyof SequenceInferOptions>
  ]: InferOptions[Name]
}

/** The options of one call, checked. */
export interface CheckedOptions extends AsGiven, AnswerOptions {
  readonly sequence: SequenceOptions | undefined
}

/** Whether a value is a valid sequence id. */
export function isSequenceId(id: unknown): id is SequenceId {
  return typeof id === 'string'
    ? id !== ''
    : typeof id === 'bigint'
      ? id !== 0n
      : Number.isSafeInteger(id) && id !== 0
}

/** The valid sequence ids, in words. */
export const sequenceIdShown =
  "a whole number that is not 0 (a bigint from 2^53 on), or a string that is not ''"

interface Check {
  readonly isValid: (value: unknown) => boolean
  readonly expected: string
}

const duration: Check = { isValid: isDuration, expected: durationShown }
const sequenceId: Check = { isValid: isSequenceId, expected: sequenceIdShown }
const trueOrFalse: Check = { isValid: (value) => typeof value === 'boolean', expected: 'true or false' }

/**
 * How each option of a call is checked, in the order in which messages list them; `null` for outputs, which the model
 * names. A new option has its line here and in {@link InferOptions}.
 */
const checks: { readonly [Name in keyof Required<InferOptions>]: Check | null } = {
  signal: { isValid: isAbortSignal, expected: 'an AbortSignal' },
  timeoutMs: duration,
  deadlineMs: duration,
  maxRunMs: duration,
  priority: { isValid: isLevel, expected: 'a whole number, 0 or more' },
  outputs: null,
  splitOversized: trueOrFalse,
  requestId: { isValid: (value) => typeof value === 'string', expected: 'a string' },
  report: trueOrFalse,
  sequenceId,
  sequenceStart: trueOrFalse,
  sequenceEnd: trueOrFalse,
}

const optionNames = Object.keys(checks) as (keyof InferOptions)[]
const checkOf: ReadonlyMap<string, Check | null> = new Map(Object.entries(checks))

/** Options that belong to one request. All others apply to each request of `inferMany()` as well. */
const ofOneRequest: readonly string[] = ['requestId', 'report', 'sequenceId', 'sequenceStart', 'sequenceEnd']

/** The options of `infer()` that also apply to each request of `inferMany()`. */
export const sharedOptionNames = optionNames.filter((name) => !ofOneRequest.includes(name))

/** The options of a call without options. Each is a property of its own, as `Object.prototype` may have such names. */
export const noOptions: CheckedOptions = {
  ...(Object.fromEntries(optionNames.map((name) => [name, undefined])) as AsGiven),
  requestId: undefined,
  sequence: undefined,
  outputs: null,
  report: false,
}

/**
 * Checks the options of one call. It does what `readOptions` does in a fraction of the time: this runs for every request.
 *
 * @param offered indices of the outputs that requests may ask for; `null` for all.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkInferOptions(
  options: unknown,
  metadata: ModelMetadata,
  offered: readonly number[] | null = null,
): CheckedOptions {
  const model = metadata.name
  const checked: Checked = { ...noOptions }
  checked.outputs = offered
  try {
    if (!isPlainObject(options)) throw invalidArgument('options', 'a plain object', options, { model })
    for (const name of Object.keys(options) as (keyof InferOptions)[]) {
      const check = checkOf.get(name)
      if (check === undefined) throw unknownOption(`options.${name}`, name, optionNames, { model })
      const value = options[name]
      if (value === undefined) continue
      if (check === null) checked.outputs = outputIndices(value, metadata, offered)
      else if (check.isValid(value)) checked[name] = value as never
      else throw wrong(model, name, check, value)
    }
  } catch (error) {
    throw typed('options', error, { model })
  }
  const { sequenceId: id, sequenceStart: start = false, sequenceEnd: end = false } = checked
  if (id !== undefined) checked.sequence = { id, start, end }
  else if (start || end) throw wrong(model, 'sequenceId', sequenceId, id)
  return checked
}

type Checked = { -readonly [Name in keyof CheckedOptions]: CheckedOptions[Name] } & SequenceInferOptions

function wrong(model: string, name: string, check: Check, value: unknown): InferenceError {
  const hint = check === duration && value === Infinity ? 'Leave it out for no limit' : undefined
  return invalidArgument(`options.${name}`, check.expected, value, { model, hint })
}

function isLevel(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxPriorityLevel
}

function outputIndices(
  outputs: unknown,
  metadata: ModelMetadata,
  offered: readonly number[] | null,
): number[] {
  const model = metadata.name
  const indices: number[] = []
  for (const name of readNames(outputs, model)) {
    const index = metadata.outputs.findIndex((output) => output.name === name)
    if (indices.includes(index)) throw invalidArgument('options.outputs', 'each name once', name, { model })
    if (index !== -1 && offered?.includes(index) !== false) {
      indices.push(index)
      continue
    }
    const unservable = metadata.unservableOutputs.find((output) => output.name === name)
    const names = listNames(
      metadata.outputs.filter((_, at) => offered?.includes(at) !== false).map((output) => output.name),
    )
    const hint = unservable && `It is ${unservable.type}, which the executor in use cannot return`
    throw invalidArgument('options.outputs', `names out of ${names}`, name, { model, hint })
  }
  return indices
}

function readNames(outputs: unknown, model: string): unknown[] {
  let names: unknown[] = []
  try {
    if (Array.isArray(outputs)) names = [...(outputs as unknown[])]
  } catch (error) {
    throw typed('options.outputs', error, { model })
  }
  if (names.length === 0)
    throw invalidArgument('options.outputs', 'an array of output names', outputs, { model })
  return names
}
