import { isUint8Array } from 'node:util/types'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { isPlainObject, ownProperties, typed } from './plain-options.ts'
import type { SessionOptions } from './model-config.ts'
import { flattenExtra, type SessionConfigEntries } from './session-config-entries.ts'

/** Most threads of a session: ONNX Runtime starts as many as it is told, until the system has no more for anybody. */
export const maxThreads = 1024

/** Session options as they are sent to a worker thread. */
export type CheckedSessionOptions = Omit<SessionOptions, 'extra'> & { readonly extra: SessionConfigEntries }

/** ONNX Runtime's, in all versions from 1.25 to 1.30; `executionProviders` is the model's. */
const names: readonly string[] = [
  'intraOpNumThreads',
  'interOpNumThreads',
  'freeDimensionOverrides',
  'freeDimensionOverridesByDenotation',
  'graphOptimizationLevel',
  'enableCpuMemArena',
  'enableMemPattern',
  'executionMode',
  'optimizedModelFilePath',
  'enableProfiling',
  'profileFilePrefix',
  'logId',
  'logSeverityLevel',
  'logVerbosityLevel',
  'preferredOutputLocation',
  'enableGraphCapture',
  'externalData',
  'extra',
] satisfies (keyof SessionOptions)[]

/**
 * Checks the options that are handed through to ONNX Runtime for what it would refuse late or in obscure words, or
 * not at all: they travel to another thread, every value in `extra` has to be text, and a name that it does not know it ignores.
 *
 * @returns a copy, in which `extra` is flat: each entry under its full name.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkSessionOptions(
  model: string,
  options: Readonly<Record<string, unknown>>,
): CheckedSessionOptions {
  const checked: Record<string, unknown> = ownProperties({ extra: {} })
  for (const [name, value] of Object.entries(options)) {
    if (name === 'executionProviders') {
      throw wrong(model, name, "to be given beside sessionOptions, as the model's executionProviders", value)
    }
    if (!names.includes(name)) throw unknown(model, name)
    checked[name] = name === 'extra' ? readExtra(model, value) : sendable(model, name, value)
    if (name.endsWith('OpNumThreads') && !isThreadCount(value))
      throw wrong(model, name, `a whole number from 0 to ${maxThreads}`, value)
    if (name === 'externalData') checkExternalData(model, checked[name])
    if (name.startsWith('freeDimensionOverrides')) checkLengths(model, name, checked[name])
  }
  return checked as CheckedSessionOptions
}

/**
 * Refuses options by which ONNX Runtime would go on reading the bytes of a model once it is open, when they are gone.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkOptionsForBytes(model: string, { extra }: CheckedSessionOptions): void {
  const option = Object.keys(extra).find((name) => name.includes('use_ort_model_bytes_'))
  if (option !== undefined)
    throw wrong(model, `extra.${option}`, 'to be left out for a model that is given as bytes', extra[option])
}

function readExtra(model: string, extra: unknown): SessionConfigEntries {
  try {
    return flattenExtra(model, extra)
  } catch (error) {
    throw typed('sessionOptions.extra', error, { model })
  }
}

function isThreadCount(value: unknown): boolean {
  return (
    value === undefined ||
    (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxThreads)
  )
}

/** Both executors take the contents of files, by the names by which the model refers to them. */
function checkExternalData(model: string, files: unknown): void {
  const isFile = (file: unknown) =>
    isPlainObject(file) &&
    typeof file['path'] === 'string' &&
    file['path'] !== '' &&
    isUint8Array(file['data'])
  if (Array.isArray(files) && files.every(isFile)) return
  throw wrong(
    model,
    'externalData',
    'an array of { path, data }: the name by which the model refers to a file, and a Uint8Array of its content',
    files,
  )
}

function checkLengths(model: string, name: string, lengths: unknown): void {
  if (!isPlainObject(lengths)) throw wrong(model, name, 'a plain object of lengths by dimension', lengths)
  for (const [dimension, length] of Object.entries(lengths)) {
    if (!Number.isSafeInteger(length) || (length as number) < 0)
      throw wrong(model, `${name}.${dimension}`, 'a whole number of at least 0', length)
  }
}

function sendable(model: string, name: string, value: unknown): unknown {
  try {
    return structuredClone(value)
  } catch {
    throw wrong(model, name, 'a value that can be sent to a worker thread', value)
  }
}

function unknown(model: string, name: string): InferenceError {
  const hint = name.includes('.') ? 'An entry of that name belongs into sessionOptions.extra' : undefined
  const details = { code: 'ERR_MODEL_CONFIG' as const, model, ...(hint === undefined ? {} : { hint }) }
  return invalidArgument(`sessionOptions.${name}`, `one of ${names.join(', ')}`, name, details)
}

function wrong(model: string, name: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(`sessionOptions.${name}`, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
