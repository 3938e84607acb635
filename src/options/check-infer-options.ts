import { invalidArgument, listNames } from '../errors.ts'
import type { InferOptions } from './infer-options.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import { maxPriorityLevel } from './batching.ts'
import { isAbortSignal } from './abort-signal.ts'
import { isPlainObject, typed } from './plain-options.ts'
import { checkSequenceOptions, type SequenceOptions } from './sequence-options.ts'

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
