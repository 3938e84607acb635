import type { ResourceLimits } from 'node:worker_threads'
import { availableParallelism } from 'node:os'
import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'

/** Settings of worker threads, all but the last passed on to `node:worker_threads`. */
export interface WorkerOptions {
  /**
   * A thread that reaches a limit is replaced, mostly: where that happens inside ONNX Runtime, as it makes strings, or
   * in V8's own collector, the process ends. Good against leaks, no protection from large outputs.
   */
  resourceLimits?: ResourceLimits
  execArgv?: string[]
  env?: Record<string, string>
  /** How long a worker may take to start, in milliseconds. Default 60 000. */
  startTimeoutMs?: number
}

/** Settings of the process-wide staging pool. */
export interface StagingOptions {
  /** `auto` takes the best there is; another value asks for that kind and fails with `ERR_NATIVE_LOAD` without it. */
  kind?: 'auto' | 'native' | 'shared' | 'copied'
  /**
   * Most native memory that is kept, in bytes; one limit for the process, with 256 MiB by default. An engine that leaves it
   * out follows the others; of several that ask the largest counts while its engine is open, and who asks for less is
   * warned (`ZEROHOP_STAGING_LIMIT`). A slot that finds no room gets plain memory of its own, which is not page-locked.
   *
   * What is past the limit, and slots of more than an eighth of it (of 32 MiB at most), go back to the system two seconds after
   * the last batch that needed them, and when the model is unloaded. Without the addon, shared memory goes back when the
   * application's thread has collected garbage, too.
   */
  limitBytes?: number
}

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
