import * as v from 'valibot'
import { isUint8Array } from 'node:util/types'
import type { InferenceSession } from 'onnxruntime-common'
import { invalidConfig, type InferenceError } from '../errors.ts'
import { isPlainObject, ownProperties, typed, unknownOption } from './plain-options.ts'
import type { FunctionSource } from './model-source.ts'
import type { ResolvedConfig } from './model-config.ts'
import { checkRules, optionsOf, wholeNumber } from './options-schema.ts'
import { isSince } from '../base/platform.ts'
import type { InstanceKind } from './instance-groups.ts'
import { inputsOfSequence } from './sequence-config.ts'

/** ONNX Runtime's session options; {@link ModelOptions.executionProviders} is a separate option. */
export interface SessionOptions extends InferenceSession.SessionOptions {
  /**
   * As `freeDimensionOverrides`, but by denotation (`DATA_BATCH`) instead of name. Native executor only. Default: none.
   */
  readonly freeDimensionOverridesByDenotation?: Readonly<Record<string, number>>
}

/** ONNX Runtime's options of each run. */
export interface RunOptions {
  /** ONNX Runtime's run config entries, nested or under their full names. Every value is a string. Default `{}`. */
  readonly extra?: Readonly<Record<string, unknown>>
}

/** Most threads of a session. ONNX Runtime starts as many as requested, until the system runs out of threads. */
export const maxThreads = 1024

/** Session options as sent to a worker thread. */
type CheckedSessionOptions = Omit<SessionOptions, 'extra'> & { readonly extra: SessionConfigEntries }

/** ONNX Runtime's options in versions 1.25 to 1.30. `executionProviders` is an option of the model. */
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
 * Checks session options that ONNX Runtime would refuse late, with an obscure message, or not at all. They are posted
 * to another thread, every value in `extra` must be a string, and ONNX Runtime ignores unknown names.
 *
 * @returns a copy with a flat `extra`: each entry under its full name.
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
    checked[name] = name === 'extra' ? flattenExtra(model, value) : sendable(model, name, value)
    if (name.endsWith('OpNumThreads') && !isThreadCount(value))
      throw wrong(model, name, `a whole number from 0 to ${maxThreads}`, value)
    if (name === 'externalData') checkExternalData(model, checked[name])
    if (name.startsWith('freeDimensionOverrides')) checkLengths(model, name, checked[name])
  }
  return checked as CheckedSessionOptions
}

/**
 * Refuses options with which ONNX Runtime keeps reading the bytes of a model after it is open, when they have been
 * freed.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkOptionsForBytes(model: string, { extra }: CheckedSessionOptions): void {
  const option = Object.keys(extra).find((name) => name.includes('use_ort_model_bytes_'))
  if (option !== undefined)
    throw wrong(model, `extra.${option}`, 'to be omitted for a model that is given as bytes', extra[option])
}

function isThreadCount(value: unknown): boolean {
  return (
    value === undefined ||
    (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxThreads)
  )
}

/** Both executors take file contents, by the names that the model refers to. */
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
  return unknownOption(`sessionOptions.${name}`, name, names, { code: 'ERR_MODEL_CONFIG', model, hint })
}

function wrong(model: string, name: string, expected: string, received: unknown): InferenceError {
  return invalidConfig(model, `sessionOptions.${name}`, expected, received)
}

/** ONNX Runtime's config entries by full name, such as `session.intra_op.allow_spinning`. */
export type SessionConfigEntries = Readonly<Record<string, string>>

/** Deepest nesting. No option of ONNX Runtime has so many dots, and a cyclic object would never end. */
const deepest = 16

/**
 * Flattens `sessionOptions.extra`, or a similar option. Entries may be nested (`{ session: { intra_op: {
 * allow_spinning: '0' } } }`), have full names (`{ 'session.intra_op.allow_spinning': '0' }`), or a mix of both.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for a value that is not a string, and for an entry given twice with
 * different values.
 */
export function flattenExtra(
  model: string,
  extra: unknown,
  option = 'sessionOptions.extra',
): SessionConfigEntries {
  const entries: Record<string, string> = ownProperties({})
  const add = (prefix: string, group: unknown, depth: number): void => {
    const path = `${option}${prefix === '' ? '' : `.${prefix}`}`
    if (depth > deepest || !isPlainObject(group)) {
      throw invalidConfig(
        model,
        path,
        depth > deepest ? `groups at most ${deepest} deep` : 'a plain object of options',
        group,
      )
    }
    for (const [key, value] of Object.entries(ownProperties(group))) {
      const name = prefix === '' ? key : `${prefix}.${key}`
      if (typeof value === 'object' && value !== null) add(name, value, depth + 1)
      else if (typeof value !== 'string')
        throw invalidConfig(model, `${option}.${name}`, 'a string, as all values in extra', value)
      else if ((entries[name] ??= value) !== value) {
        throw invalidConfig(
          model,
          `${option}.${name}`,
          `one value; it is also given as '${entries[name]}'`,
          value,
        )
      }
    }
  }
  try {
    add('', extra, 0)
  } catch (error) {
    throw typed(option, error, { model })
  }
  return entries
}

/**
 * Memory that ONNX Runtime allocates for intermediate values of CPU runs. By default its arena keeps this memory for
 * the next run, so the largest run determines the memory held until the model is unloaded.
 */
export interface MemoryOptions {
  /**
   * `false`: no arena; each run allocates and frees its own memory. Replaces `sessionOptions.enableCpuMemArena`.
   * Default `true`.
   */
  arena?: boolean
  /**
   * When the arena frees unused memory, except for a first block of 1 MiB: after each `'run'`, or when the model has
   * been `'idle'` for two seconds. Native executor only. Default: never.
   */
  shrink?: 'run' | 'idle'
  /**
   * Most bytes the arena keeps after a run, besides memory in use (the weights). Over this limit it frees all but a
   * first block of 1 MiB. A run may use more. Native executor only. Default: no limit.
   */
  limitBytes?: number
}

/** `memory` options with defaults in place. `limitBytes` is `Infinity` for no limit. */
export type ResolvedMemory = ResolvedConfig['memory']

export const memorySchema = v.optional(
  optionsOf({
    arena: v.optional(v.boolean()),
    shrink: v.optional(v.picklist(['run', 'idle'])),
    limitBytes: v.optional(wholeNumber(0, Infinity)),
  }),
  {},
)

/**
 * Checks the memory options for contradictions.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkMemory(
  model: string,
  { arena, shrink, limitBytes }: ResolvedMemory,
  enableCpuMemArena: boolean | undefined,
): void {
  const hasNoArena = (arena ?? enableCpuMemArena) === false
  const isGivenTwice = arena !== undefined && enableCpuMemArena !== undefined
  checkRules(model, [
    [
      isGivenTwice,
      'sessionOptions.enableCpuMemArena',
      'to be omitted beside memory.arena',
      enableCpuMemArena,
    ],
    [hasNoArena && shrink !== undefined, 'memory.shrink', 'to be omitted without an arena', shrink],
    [
      hasNoArena && limitBytes !== Infinity,
      'memory.limitBytes',
      'to be omitted without an arena',
      limitBytes,
    ],
  ])
}

/** What a second session of a model is for. */
export type SecondFor = 'lone requests' | 'short runs'

/** Options that a session is opened with: ONNX Runtime's own, and those of the native executor. */
export interface OpenOptions extends InferenceSession.SessionOptions {
  readonly freeDimensionOverridesByDenotation?: Readonly<Record<string, number>>
  /** Initializers that requests may override, if the graph has them as inputs. */
  readonly overridden?: readonly string[]
  /** Config entries of each run. */
  readonly runEntries?: SessionConfigEntries
  /** Threads of a second session of the model. Default: there is none. */
  readonly secondThreads?: number
  /** What is run on that. */
  readonly secondFor?: SecondFor
  /** For a function: how it is opened. Such a session has no other options. */
  readonly function?: FunctionSource
}

/** How a session uses an entry of `executionProviders`: unchanged, as a plugin, or, with `null`, not at all. */
export type ProviderUse = (
  entry: InferenceSession.ExecutionProviderConfig,
) => InferenceSession.ExecutionProviderConfig | null

/** The name of an execution provider in a list. */
export function nameOf(provider: InferenceSession.ExecutionProviderConfig): string {
  return typeof provider === 'string' ? provider : provider.name
}

/** Whether ONNX Runtime may not assign nodes to the CPU; `cpu` is then not a fallback. */
export function forbidsCpu({ sessionOptions }: ResolvedConfig): boolean {
  return sessionOptions.extra['session.disable_cpu_ep_fallback'] === '1'
}

/** Where one instance runs. */
export interface Placement {
  readonly kind: InstanceKind
  /** CUDA device ordinal; 0 for other kinds. */
  readonly gpu: number
  /** Threads per run. */
  readonly intraOpNumThreads: number
  /** Cores that a lone request may have there. Default: runs have the threads of their sessions. */
  readonly cores?: number
}

/** The CUDA device of an instance, for which its staging memory is page-locked; `null` for none. */
export function cudaDevice({ kind, gpu }: Placement): number | null {
  return kind === 'cuda' ? gpu : null
}

/** The runtime that opens a session. */
export interface SessionRuntime {
  readonly ortVersion: string
  readonly useProvider: ProviderUse
}

const allowSpinning = 'session.intra_op.allow_spinning'

/**
 * Microseconds for which ONNX Runtime's threads spin before they sleep. Between two operators of a run, spinning costs
 * less than a wake-up: on 2 cores SqueezeNet runs 1.25 times as often, 200 small products 1.6 times. ONNX Runtime's
 * default of a millisecond would take cores from the application and other workers.
 */
const spinUs = 20
/** Older versions have no limit on spinning. */
const boundedSpinning = [1, 26] as const

function spinEntries(extra: SessionConfigEntries, ortVersion: string): SessionConfigEntries {
  if (allowSpinning in extra) return {}
  return isSince(ortVersion, boundedSpinning)
    ? { [allowSpinning]: '1', 'session.intra_op.spin_duration_us': String(spinUs) }
    : { [allowSpinning]: '0' }
}

/** Options to create a session with: this library's defaults, overridden by the caller's. */
export function sessionOptions(
  config: ResolvedConfig,
  placement: Placement,
  { ortVersion, useProvider }: SessionRuntime,
): OpenOptions {
  const { extra, ...given } = config.sessionOptions
  return {
    intraOpNumThreads: placement.intraOpNumThreads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // Errors reach the caller as exceptions; ONNX Runtime would also print them.
    logSeverityLevel: 4,
    ...given,
    ...(config.memory.arena === undefined ? {} : { enableCpuMemArena: config.memory.arena }),
    executionProviders: (config.executionProviders ?? providers(placement)).flatMap((entry) =>
      nameOf(entry) === 'cpu' && forbidsCpu(config) ? [] : (useProvider(entry) ?? []),
    ),
    extra: { ...spinEntries(extra, ortVersion), ...extra },
    ...(Object.keys(config.runEntries).length > 0 && { runEntries: config.runEntries }),
    overridden: namedInputs(config),
  }
}

/** A compiled form up to this size is opened a second time in a millisecond or two. */
const smallFormBytes = 2 ** 21

/**
 * The session options for a second session of the model, with another number of threads. Where instances have a share of the cores it
 * has all of them, for lone requests. For a small model whose instances have all cores it has one thread, for short runs: a
 * second thread brings them less than it costs. None if the application set `intraOpNumThreads`, or limits the memory that is kept.
 *
 * @param compiledBytes size of the model's compiled form.
 */
export function secondSession(
  { sessionOptions: { intraOpNumThreads: given }, memory }: Pick<ResolvedConfig, 'sessionOptions' | 'memory'>,
  { intraOpNumThreads, cores = 0 }: Placement,
  compiledBytes: number,
): Pick<OpenOptions, 'secondThreads' | 'secondFor'> {
  if (given !== undefined || memory.limitBytes < Infinity || cores < 2) return {}
  if (cores > intraOpNumThreads) return { secondThreads: cores, secondFor: 'lone requests' }
  return compiledBytes <= smallFormBytes ? { secondThreads: 1, secondFor: 'short runs' } : {}
}

/** All inputs that a configuration names. Among initializers, only those are inputs of requests. */
export function namedInputs({
  optionalInputs,
  inputs = [],
  sequence,
}: Pick<ResolvedConfig, 'optionalInputs' | 'inputs' | 'sequence'>): string[] {
  return [...new Set([...optionalInputs, ...inputs.map(({ name }) => name), ...inputsOfSequence(sequence)])]
}

function providers({ kind, gpu }: Placement): InferenceSession.ExecutionProviderConfig[] {
  if (kind === 'cuda')
    return [{ name: 'cuda', deviceId: gpu } as InferenceSession.ExecutionProviderConfig, 'cpu']
  return kind === 'cpu' ? ['cpu'] : [kind, 'cpu']
}

/** The runtime that opens the sessions of a model. */
export interface ModelRuntime {
  readonly executor: 'native' | 'binding'
  readonly ortVersion: string
  /** Whether only the CPU execution provider is used. */
  readonly onCpuOnly: boolean
}
