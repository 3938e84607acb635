import { availableParallelism } from 'node:os'
import * as v from 'valibot'
import { invalidArgument } from './errors.ts'
import type { WorkerOptions } from './pool/device-pool.ts'
import type { StagingOptions } from './staging/staging-pool.ts'

/** Options of an {@link InferenceEngine}. */
export interface EngineOptions {
  /**
   * Most worker threads that compute on the CPU. Default: the cores available. Threads are started as instances need
   * them: one instance gets one worker whose runs use all cores.
   */
  cpuWorkers?: number
  /** Memory through which tensors reach the workers. */
  staging?: StagingOptions
  /** Passed on to the worker threads. */
  workers?: WorkerOptions
}

/** Engine options with defaults in place. */
export interface ResolvedEngineOptions {
  readonly cores: number
  readonly cpuWorkers: number
  readonly staging: StagingOptions
  readonly workers: WorkerOptions
}

const positiveInteger = v.pipe(v.number(), v.integer('a whole number'), v.minValue(1), v.maxValue(2 ** 31 - 1))

const positiveNumber = v.pipe(v.number(), v.finite(), v.gtValue(0))

const schema = v.strictObject({
  cpuWorkers: v.optional(v.pipe(positiveInteger, v.maxValue(1024))),
  staging: v.optional(
    v.strictObject({
      kind: v.optional(v.picklist(['auto', 'native', 'shared', 'copied'])),
      limitBytes: v.optional(v.pipe(v.number(), v.integer('a whole number'), v.minValue(0))),
    }),
    {},
  ),
  workers: v.optional(
    v.strictObject({
      resourceLimits: v.optional(
        v.strictObject({
          maxYoungGenerationSizeMb: v.optional(positiveNumber),
          maxOldGenerationSizeMb: v.optional(positiveNumber),
          codeRangeSizeMb: v.optional(positiveNumber),
          stackSizeMb: v.optional(positiveNumber),
        }),
      ),
      execArgv: v.optional(v.array(v.string())),
      env: v.optional(v.record(v.string(), v.string())),
      startTimeoutMs: v.optional(positiveInteger),
    }),
    {},
  ),
})

/**
 * Checks the options of an engine and fills in defaults.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function resolveEngineOptions(options: unknown = {}): ResolvedEngineOptions {
  // An array would pass for an object without keys.
  const result = v.safeParse(schema, Array.isArray(options) ? null : options, { abortEarly: true })
  if (!result.success) {
    const issue = result.issues[0]
    if (issue.path === undefined) throw invalidArgument('options', 'an object', options)
    const name = ['options', ...(issue.path ?? []).map(({ key }) => String(key))].join('.')
    const unknownKey = issue.type === 'strict_object' && issue.expected === 'never'
    throw invalidArgument(name, unknownKey ? 'a known option' : (issue.expected ?? issue.message), unknownKey ? issue.path?.at(-1)?.key : issue.input)
  }
  const { cpuWorkers, staging, workers } = result.output
  const cores = availableParallelism()
  return {
    cores,
    cpuWorkers: cpuWorkers ?? cores,
    staging: staging as StagingOptions,
    workers: workers as WorkerOptions,
  }
}
