import { maxPriorityLevel, type BatchReason } from './batching.ts'
import { invalidArgument, listNames } from '../errors.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import { isAbortSignal, isPlainObject, typed } from './plain-options.ts'

/**
 * Options of one `infer()`. `Report` is whether a report may be asked for: `InferOptions<string, boolean>` is the type of
 * options that are made elsewhere and may say either.
 */
export interface InferOptions<
  Output extends string = string,
  Report extends boolean = false,
> extends SequenceInferOptions {
  /**
   * Withdraws the request: while it is queued it leaves the queue at once; while it runs its result is dropped.
   * Either way the call rejects with the signal's own reason.
   */
  signal?: AbortSignal | undefined
  /**
   * Longest time in the queue, in milliseconds; then `ERR_TIMEOUT`. For a request that has started, see `maxRunMs`. Where the
   * model has a `defaultTimeoutMs` it counts only if it is shorter and `allowTimeoutOverride` is set; where it does not
   * count, a warning says so once.
   */
  timeoutMs?: number | undefined
  /**
   * Longest time of a run that the request is part of, in milliseconds; then `ERR_TIMEOUT`. The run is stopped, and others
   * that were part of it are run again without this one. Default: the model's `maxRunMs`.
   */
  maxRunMs?: number | undefined
  /**
   * Within how many milliseconds from this call the answer is of use. A request that by the times of earlier runs cannot
   * be answered in time is refused at once with `ERR_DEADLINE`, and one that cannot any more leaves the queue with it; a
   * run that has started is delivered, late or not. Default: the model's `latencyTargetMs`.
   */
  deadlineMs?: number | undefined
  /**
   * Priority level, 1 served first. 0, and any number above the model's `priorityLevels`, means its
   * `defaultPriorityLevel`; of the latter a warning tells once.
   */
  priority?: number | undefined
  /** Names of the outputs wanted, each once. Default: all that can be served. */
  outputs?: readonly Output[] | undefined
  /** Free text carried into errors of this request. */
  requestId?: string | undefined
  /** Answers with `{ outputs, report }`, where the {@link BatchReport} tells how the request was batched. Default false. */
  report?: Report
  /** As the model's `splitOversized`, for this request. */
  splitOversized?: boolean | undefined
}

/** What a request answers with that asks for a report. */
export interface ReportedOutputs<O> {
  /** As without a report. */
  outputs: O
  /** How the request was batched and run. */
  report: BatchReport
}

/** How a request was batched and run. */
export interface BatchReport {
  /** Number of the run, counted per model; equal for all that shared it. */
  batchId: number
  /** Rows of the run. */
  batchSize: number
  /** The length to which the padded dimension was filled up; `null` for a model without padding. */
  paddedTo: number | null
  /** Index of the request's first row in the run. */
  position: number
  /** From `infer()` to the start of the run, in milliseconds. */
  queuedMs: number
  /** ONNX Runtime's run, in milliseconds. */
  computeMs: number
  /** Why the batch was closed. */
  reason: BatchReason
  /** Whether the application's thread ran it, rather than a worker. */
  inline: boolean
  /** The instance that ran it: the model's name and a number. */
  instance: string
  /** Runs the request took part in: more than 1 after a batchmate or a worker had failed. */
  attempts: number
  /** For a request that was split: a report of each of its parts, the first of which is repeated above. */
  parts?: BatchReport[]
  /**
   * Of a pipeline: a report of each step that was run, in the order in which they ended. Above, `batchId` is the number of the request,
   * `batchSize` its rows, `queuedMs` and `computeMs` the sums of the steps', and `reason` the last step's.
   */
  steps?: StepReport[]
  /** The answer was kept from an earlier run, which the rest tells of; `queuedMs` and `computeMs` are 0. Only with a `responseCache`. */
  cached?: true
  /** The run was begun for an equal request, which came before. Only with `coalesce`. */
  coalesced?: true
}

/** How a step of a pipeline was batched and run. */
export interface StepReport extends BatchReport {
  /** Its name in the pipeline. */
  step: string
  /** The name of its model, and the version that answered. */
  model: string
  version: number
  /** The number of the pipeline's request, counted per pipeline: the same for all its steps. */
  parentId: number
  /** From the pipeline's `infer()` to when the step could begin, in milliseconds. */
  beganMs: number
}

/** Which sequence: a whole number that is not 0, or a string that is not ''. */
export type SequenceId = number | bigint | string

/** The sequence of one request, as `infer()` is told of it in Triton's words; see {@link SequenceConfig}. */
export interface SequenceInferOptions {
  /** The sequence that the request belongs to, for a model with `sequence` in its configuration. Default: none. */
  sequenceId?: SequenceId | undefined
  /** Whether the sequence begins with this request: what was kept under its id is forgotten. Default `false`. */
  sequenceStart?: boolean | undefined
  /** Whether it ends with this request, after which its id is free. Default `false`. */
  sequenceEnd?: boolean | undefined
}

/** The sequence of one request, checked. */
export interface SequenceOptions {
  readonly id: SequenceId
  readonly start: boolean
  readonly end: boolean
}

/** Whether a value can be the id of a sequence. */
export function isSequenceId(id: unknown): id is SequenceId {
  return typeof id === 'string'
    ? id !== ''
    : typeof id === 'bigint'
      ? id !== 0n
      : Number.isSafeInteger(id) && id !== 0
}

/** What an id has to be, in words. */
export const sequenceIdShown =
  "a whole number that is not 0 (a bigint from 2^53 on), or a string that is not ''"

/**
 * Checks the sequence of one request; `undefined` for none.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkSequenceOptions(
  model: string,
  id: unknown,
  start: unknown,
  end: unknown,
): SequenceOptions | undefined {
  const wrong = (name: string, expected: string, received: unknown) =>
    invalidArgument(`options.${name}`, expected, received, { model })
  if (start !== undefined && typeof start !== 'boolean') throw wrong('sequenceStart', 'true or false', start)
  if (end !== undefined && typeof end !== 'boolean') throw wrong('sequenceEnd', 'true or false', end)
  if (id === undefined && start !== true && end !== true) return undefined
  if (!isSequenceId(id)) throw wrong('sequenceId', sequenceIdShown, id)
  return { id, start: start === true, end: end === true }
}

/** How a request wants to be answered. */
export interface AnswerOptions {
  /** Indices of the outputs wanted; `null` for all. */
  readonly outputs: readonly number[] | null
  readonly requestId: string | undefined
  readonly report: boolean
}

/** The options of one call, checked. */
export interface CheckedOptions extends AnswerOptions {
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number | undefined
  readonly deadlineMs: number | undefined
  readonly maxRunMs: number | undefined
  readonly priority: number | undefined
  readonly splitOversized: boolean | undefined
  readonly sequence: SequenceOptions | undefined
}

/** The options of a call that gives none. */
export const noOptions: CheckedOptions = {
  signal: undefined,
  timeoutMs: undefined,
  deadlineMs: undefined,
  maxRunMs: undefined,
  priority: undefined,
  splitOversized: undefined,
  sequence: undefined,
  outputs: null,
  requestId: undefined,
  report: false,
}

/** Of those of one call, the options that hold as well for each of many. */
export const sharedOptionNames = [
  'signal',
  'timeoutMs',
  'deadlineMs',
  'maxRunMs',
  'priority',
  'outputs',
  'splitOversized',
] as const

const optionNames: readonly (keyof InferOptions)[] = [
  ...sharedOptionNames,
  'requestId',
  'report',
  'sequenceId',
  'sequenceStart',
  'sequenceEnd',
]

/**
 * Checks the options of one call.
 *
 * @param offered indices of the outputs that there are for requests; `null` for all.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkInferOptions(
  options: unknown,
  metadata: ModelMetadata,
  offered: readonly number[] | null = null,
): CheckedOptions {
  const model = metadata.name
  const {
    signal,
    timeoutMs,
    deadlineMs,
    maxRunMs,
    priority,
    outputs,
    requestId,
    report,
    splitOversized,
    sequenceId,
    sequenceStart,
    sequenceEnd,
  } = ownOptions(options, model)
  const wrong = (name: string, expected: string, value: unknown) =>
    invalidArgument(`options.${name}`, expected, value, { model })
  const duration = 'milliseconds, more than 0 and less than 2^31'
  if (signal !== undefined && !isAbortSignal(signal)) throw wrong('signal', 'an AbortSignal', signal)
  if (timeoutMs !== undefined && !isDuration(timeoutMs)) throw wrong('timeoutMs', duration, timeoutMs)
  if (deadlineMs !== undefined && !isDuration(deadlineMs)) throw wrong('deadlineMs', duration, deadlineMs)
  if (maxRunMs !== undefined && !isDuration(maxRunMs)) throw wrong('maxRunMs', duration, maxRunMs)
  if (priority !== undefined && !isLevel(priority))
    throw wrong('priority', 'a whole number, 0 or more', priority)
  if (requestId !== undefined && typeof requestId !== 'string')
    throw wrong('requestId', 'a string', requestId)
  if (report !== undefined && typeof report !== 'boolean') throw wrong('report', 'true or false', report)
  if (splitOversized !== undefined && typeof splitOversized !== 'boolean')
    throw wrong('splitOversized', 'true or false', splitOversized)
  return {
    signal,
    timeoutMs,
    deadlineMs,
    maxRunMs,
    priority,
    splitOversized,
    sequence: checkSequenceOptions(model, sequenceId, sequenceStart, sequenceEnd),
    outputs: outputs === undefined ? offered : outputIndices(outputs, metadata, offered),
    requestId,
    report: report === true,
  }
}

/** As `readOptions` does it, which takes five times as long: this is done for every request. */
function ownOptions(options: unknown, model: string): Record<keyof InferOptions, unknown> {
  try {
    if (!isPlainObject(options)) throw invalidArgument('options', 'a plain object', options, { model })
    for (const name in options) {
      if (optionNames.includes(name as keyof InferOptions) || !Object.hasOwn(options, name)) continue
      throw invalidArgument(`options.${name}`, `one of ${optionNames.join(', ')}`, name, { model })
    }
    return {
      signal: undefined,
      timeoutMs: undefined,
      deadlineMs: undefined,
      maxRunMs: undefined,
      priority: undefined,
      outputs: undefined,
      requestId: undefined,
      report: undefined,
      splitOversized: undefined,
      sequenceId: undefined,
      sequenceStart: undefined,
      sequenceEnd: undefined,
      ...options,
    }
  } catch (error) {
    throw typed('options', error, { model })
  }
}

function isLevel(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxPriorityLevel
}

/** Milliseconds as calls take them. */
export function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value < 2 ** 31
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
    const hint = unservable
      ? { hint: `It is ${unservable.type}, which the executor in use cannot return` }
      : {}
    throw invalidArgument('options.outputs', `names out of ${names}`, name, { model, ...hint })
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
