import { invalidArgument } from '../errors.ts'
import type { InferOptions } from './config.ts'
import type { ModelMetadata } from './metadata.ts'
import { maxPriorityLevel } from './scheduling-config.ts'

/** The options of one call, checked. */
export interface CheckedOptions extends Pick<InferOptions, 'signal' | 'timeoutMs' | 'deadlineMs' | 'priority' | 'splitOversized'> {
  /** Indices of the outputs wanted; `null` for all. */
  readonly outputs: readonly number[] | null
  readonly requestId: string | undefined
  readonly report: boolean
}

/** The options of a call that gives none. */
export const noOptions: CheckedOptions = { outputs: null, requestId: undefined, report: false }

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
  const check = (name: string, value: unknown, isRight: boolean, expected: string): void => {
    if (value !== undefined && !isRight) throw invalidArgument(`options.${name}`, expected, value, { model })
  }
  check('signal', signal, signal instanceof AbortSignal, 'an AbortSignal')
  check('timeoutMs', timeoutMs, isDuration(timeoutMs), 'milliseconds, more than 0 and less than 2^31')
  check('deadlineMs', deadlineMs, isDuration(deadlineMs), 'milliseconds, more than 0 and less than 2^31')
  check('priority', priority, isLevel(priority), 'a whole number, 0 or more')
  check('requestId', requestId, typeof requestId === 'string', 'a string')
  check('report', report, typeof report === 'boolean', 'true or false')
  check('splitOversized', splitOversized, typeof splitOversized === 'boolean', 'true or false')
  return {
    ...(options as InferOptions),
    outputs: outputs === undefined ? null : outputIndices(outputs, metadata),
    requestId: requestId as string | undefined,
    report: report === true,
  }
}

function isLevel(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxPriorityLevel
}

function isDuration(value: unknown): boolean {
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
