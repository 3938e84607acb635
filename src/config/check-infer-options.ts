import { invalidArgument } from '../errors.ts'
import type { InferOptions } from './infer-options.ts'
import type { ModelMetadata } from '../metadata.ts'
import { maxPriorityLevel } from './batching-schema.ts'

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
  readonly priority: number | undefined
  readonly splitOversized: boolean | undefined
}

/** The options of a call that gives none. */
export const noOptions: CheckedOptions = {
  signal: undefined,
  timeoutMs: undefined,
  deadlineMs: undefined,
  priority: undefined,
  splitOversized: undefined,
  outputs: null,
  requestId: undefined,
  report: false,
}

const optionNames = ['signal', 'timeoutMs', 'deadlineMs', 'priority', 'outputs', 'requestId', 'report', 'splitOversized']

/**
 * Checks the options of one call.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkInferOptions(options: unknown, metadata: ModelMetadata): CheckedOptions {
  const model = metadata.name
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidArgument('options', 'an object', options, { model })
  }
  for (const name in options) {
    if (!optionNames.includes(name)) {
      throw invalidArgument(`options.${name}`, `one of ${optionNames.join(', ')}`, name, { model })
    }
  }
  const { signal, timeoutMs, deadlineMs, priority, outputs, requestId, report, splitOversized } = options as Record<keyof InferOptions, unknown>
  const wrong = (name: string, expected: string, value: unknown) => invalidArgument(`options.${name}`, expected, value, { model })
  const duration = 'milliseconds, more than 0 and less than 2^31'
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw wrong('signal', 'an AbortSignal', signal)
  if (timeoutMs !== undefined && !isDuration(timeoutMs)) throw wrong('timeoutMs', duration, timeoutMs)
  if (deadlineMs !== undefined && !isDuration(deadlineMs)) throw wrong('deadlineMs', duration, deadlineMs)
  if (priority !== undefined && !isLevel(priority)) throw wrong('priority', 'a whole number, 0 or more', priority)
  if (requestId !== undefined && typeof requestId !== 'string') throw wrong('requestId', 'a string', requestId)
  if (report !== undefined && typeof report !== 'boolean') throw wrong('report', 'true or false', report)
  if (splitOversized !== undefined && typeof splitOversized !== 'boolean') throw wrong('splitOversized', 'true or false', splitOversized)
  return {
    signal,
    timeoutMs,
    deadlineMs,
    priority,
    splitOversized,
    outputs: outputs === undefined ? null : outputIndices(outputs, metadata),
    requestId,
    report: report === true,
  }
}

function isLevel(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxPriorityLevel
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value < 2 ** 31
}

function outputIndices(outputs: unknown, metadata: ModelMetadata): number[] {
  const model = metadata.name
  if (!Array.isArray(outputs) || outputs.length === 0) {
    throw invalidArgument('options.outputs', 'an array of output names', outputs, { model })
  }
  return outputs.map((name) => {
    const index = metadata.outputs.findIndex((output) => output.name === name)
    if (index !== -1) return index
    const unservable = metadata.unservableOutputs.find((output) => output.name === name)
    const names = metadata.outputs.map((output) => `'${output.name}'`).join(', ')
    const hint = unservable ? { hint: `It is ${unservable.type}, which onnxruntime-node cannot return` } : {}
    throw invalidArgument('options.outputs', `names out of ${names}`, name, { model, ...hint })
  })
}
