import * as v from 'valibot'
import type { ResourceLimits } from 'node:worker_threads'
import { resolve } from 'node:path'
import { invalidArgument } from '../errors.ts'
import { availableCores } from '../base/available-resources.ts'
import {
  declares,
  fileOrUrl,
  optionsOf,
  parseOptions,
  positiveNumber,
  properties,
  share,
  wholeNumber,
} from './options-schema.ts'

import { resolveTraceOptions, traceSchema, type TraceOptions } from './trace-options.ts'
import { filePath } from '../base/files.ts'
import { setting } from '../base/settings.ts'

/** The number type that a provider computes in, independent of the model's types. */
export type ComputePrecision = 'float32' | 'float16' | 'bfloat16'

export const computePrecisions: readonly ComputePrecision[] = ['float32', 'float16', 'bfloat16']

/** An execution provider in a library of its own; see {@link EngineOptions.providers}. */
export interface ProviderPlugin {
  /**
   * The library, as a path or a `file:` URL. The first model that uses it loads it; it stays loaded until the process
   * ends.
   */
  library: string | URL
  /**
   * The number type it computes in. Default: the provider's choice, which may be less precise than the model's types.
   */
  precision?: ComputePrecision
  /** Options of its sessions. A model may override them in its `executionProviders`. Default `{}`. */
  options?: Readonly<Record<string, unknown>>
}

/** A plugin with its options checked. */
export interface ResolvedPlugin {
  readonly name: string
  /** Absolute. */
  readonly library: string
  readonly precision: ComputePrecision | undefined
  readonly options: Readonly<Record<string, unknown>>
}

/** The plugin settings of one session: an entry of its `executionProviders`. */
export class PluginProvider {
  readonly name: string
  /** Index among the plugin's devices. */
  readonly device: number
  readonly entries: Readonly<Record<string, string>>
  /** Whether several threads may run one session concurrently. */
  readonly sharable: boolean
  /** `null` for the provider's default. */
  readonly precision: ComputePrecision | null

  constructor(
    name: string,
    device: number,
    entries: Readonly<Record<string, string>>,
    sharable: boolean,
    precision: ComputePrecision | null,
  ) {
    this.name = name
    this.device = device
    this.entries = entries
    this.sharable = sharable
    this.precision = precision
  }
}

/** Reserved names. */
const taken = new Set(['auto', 'cpu', 'cuda'])
const nameSchema = v.pipe(
  v.string(),
  v.check(
    (name) => /^[a-z][a-z0-9_-]{0,63}$/.test(name) && !taken.has(name),
    "a name of lower-case letters, digits, '_' and '-' that is not auto, cpu or cuda",
  ),
)

/** Schema of `EngineOptions.providers`. */
const providersSchema = v.pipe(
  properties,
  v.record(
    nameSchema,
    optionsOf({
      library: fileOrUrl,
      precision: v.optional(v.picklist(computePrecisions)),
      options: v.optional(properties, {}),
    }),
  ),
  v.transform((plugins): readonly ResolvedPlugin[] =>
    Object.entries(plugins).map(([name, { library, precision, options }]) => ({
      name,
      library: resolve(filePath(library)!),
      precision,
      options,
    })),
  ),
)

/** Settings of the cache of compiled models. */
export interface CacheOptions {
  /**
   * Its folder, as a path or a `file:` URL. Only this user may have write access; it is created if missing. A folder of
   * root's, or one that is read-only, is read. Default:
   * `zerohop` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`; `~/Library/Caches` on macOS,
   * `%LOCALAPPDATA%` on Windows).
   */
  dir?: string | URL
  /** Most bytes it holds; the least recently used entries are evicted first. Default 4 GiB. */
  maxBytes?: number
}

/** Where an unknown model is opened for the first time; see {@link EngineOptions.verify}. */
export type VerifyChoice = 'child' | 'none'

/** The form of the model that its sessions were opened from. */
export interface ModelOrigin {
  /** Whether it was the compiled form from the cache. */
  readonly compiled: boolean
  /** Why, or why not. */
  readonly reason: string
}

/** The cache of compiled models, as reported by `engine.capabilities()`. */
export interface CacheCapability {
  /** Whether compiled models are read from it and written to it. */
  readonly enabled: boolean
  /** Its folder; `null` for none. */
  readonly dir: string | null
  /** Why it is in use, or not. */
  readonly reason: string
  /** What each model of the engine was opened from, by name; of several versions, the serving one. */
  readonly models: Readonly<Record<string, ModelOrigin>>
}

const defaultMaxBytes = 4 * 2 ** 30

/** Schema of `EngineOptions.cache`. */
const cacheSchema = v.optional(
  v.union([
    v.literal(false),
    optionsOf({ dir: v.optional(fileOrUrl), maxBytes: v.optional(wholeNumber(0, Infinity)) }),
  ]),
)

/**
 * The cache from the option, else from the environment variable `ZEROHOP_CACHE` (`off`, or a folder); `null` for none.
 * Its `dir` is absolute; `null` for the default folder in the user's cache folder.
 */
export function resolveCache(
  given: false | CacheOptions | undefined,
  environment = setting('ZEROHOP_CACHE'),
) {
  if (given === false || (given === undefined && environment === 'off')) return null
  const usual = environment === undefined || environment === '' || environment === 'off' ? null : environment
  const dir = given?.dir === undefined ? usual : filePath(given.dir)
  return { dir: dir === null ? null : resolve(dir), maxBytes: given?.maxBytes ?? defaultMaxBytes }
}

/** As {@link resolveCache}, for `EngineOptions.verify` and `ZEROHOP_VERIFY`. */
export function resolveVerify(
  given: VerifyChoice | undefined,
  environment = setting('ZEROHOP_VERIFY'),
): VerifyChoice {
  return given ?? (environment === 'none' ? 'none' : 'child')
}

/**
 * Settings of worker threads. `niceIncrement` is for all that run models; the others are for threads of Node.js, which functions have,
 * and models with the binding: those of the native executor run no JavaScript.
 */
export interface WorkerOptions {
  /**
   * Memory limits of a thread. A thread that reaches one is usually replaced; if it happens while ONNX Runtime creates
   * strings, or in V8's garbage collector, the process ends. Useful against leaks, not against large outputs. Default:
   * none.
   */
  resourceLimits?: ResourceLimits
  /** Node.js options of the threads, such as `--max-old-space-size`. Default: those of the process. */
  execArgv?: string[]
  /**
   * `process.env` of the threads. Default: a copy of the application's. Native code does not see it, with one
   * exception: `ORT_DISABLE_TELEMETRY` is set for the process unless the process already has that variable.
   */
  env?: Record<string, string>
  /**
   * Milliseconds a worker may take to start; then the load fails. A thread that hangs inside ONNX Runtime is detached
   * and ends when the call returns. Default 60 000.
   */
  startTimeoutMs?: number
  /**
   * Added to the niceness of threads that run models, 0 to 19, so that they yield to the application's own threads; on
   * Linux with the native executor. When all cores are busy this keeps the event loop responsive at the same
   * throughput: on 2 cores its p99 delay was 0.6 ms instead of 2 ms. Other processes at niceness 0 then take
   * precedence, too. Default 5, as in Triton.
   */
  niceIncrement?: number
}

/** Settings of the process-wide staging pool. */
export interface StagingOptions {
  /**
   * The kind of memory. `auto` takes the best available; any other value fails with `ERR_NATIVE_LOAD` if it is not
   * available: `native` for the native executor; `shared`, or `copied` where onnxruntime-node rejects shared memory,
   * for the binding. Default `'auto'`.
   */
  kind?: 'auto' | 'native' | 'shared' | 'copied'
  /**
   * Most bytes of native memory. The limit is one for the process. Default 256 MiB; an engine without this option
   * follows the others. If several engines set it, the largest value applies while its engine is open, and an engine
   * that asks for less gets a warning (`ZEROHOP_STAGING_LIMIT`). A slot that does not fit gets plain memory of its own,
   * which is not page-locked.
   *
   * Two kinds of memory are freed two seconds after the last batch that needed them, and when the model is unloaded:
   * memory over the limit, and slots larger than an eighth of the limit or 32 MiB, whichever is less. With the binding,
   * shared memory is freed only after the application's thread has collected garbage.
   */
  limitBytes?: number
}

/** How ONNX Runtime is called; see {@link EngineOptions.executor}. */
export type ExecutorChoice = 'auto' | 'native' | 'binding'

/** Limits of batches that run on the application's thread; see {@link EngineOptions.inline}. */
export interface InlineOptions {
  /**
   * Longest run, estimated from earlier runs, in microseconds; half of it while further requests wait, unless all batches
   * of the model run inline. Default 300.
   */
  maxUs?: number
  /** Largest share of the thread's time spent in inline runs, up to 1. Default 0.9. */
  loopShare?: number
}

/** Defaults for inline runs. */
export const defaultInline: Required<InlineOptions> = { maxUs: 300, loopShare: 0.9 }

/** Options of an {@link InferenceEngine}. */
export interface EngineOptions {
  /**
   * Most worker threads that compute on the CPU, up to 1024. Default: the cores available; in a container the whole
   * cores of its quota. The instances of all models are spread over them; threads start as instances need them. The
   * cores are divided among the instances of a model.
   */
  cpuWorkers?: number
  /**
   * How ONNX Runtime is called.
   *
   * - `native`: by the addon, on threads without JavaScript. A load fails with `ERR_NATIVE_LOAD` if it is not
   *   available.
   * - `binding`: through onnxruntime-node.
   * - `auto`: `native` if available, else `binding`, with the reason in `capabilities().executor`. The environment
   *   variable `ZEROHOP_EXECUTOR=binding` makes it mean `binding`.
   *
   * Default `'auto'`.
   */
  executor?: ExecutorChoice
  /**
   * With the native executor, the application's thread itself runs short batches, for at most a quarter of a millisecond at a
   * stretch. Under load it runs all batches of a model, or none: whichever gives more rows per second. `false`: all
   * batches run on workers. Default `{ maxUs: 300, loopShare: 0.9 }`.
   */
  inline?: false | InlineOptions
  /** Memory that carries tensors to the workers. Default `{}`. */
  staging?: StagingOptions
  /**
   * Execution providers in libraries of their own (ONNX Runtime provider plugins), by name. Models refer to the names:
   * `executionProviders: ['openvino', 'cpu']` or `instanceGroup: [{ kind: 'openvino' }]`. They need the native
   * executor. Each is probed in a child process first; an unusable one is left out with a warning
   * (`ZEROHOP_PROVIDER_FALLBACK`), and `capabilities().providers` says why. Default `{}`.
   */
  providers?: Readonly<Record<string, ProviderPlugin>>
  /** Settings of the worker threads. Default `{}`. */
  workers?: WorkerOptions
  /**
   * The cache of compiled models. Later loads of the same model, in this and any other process of this user, take a few
   * per cent of the time and share one copy of the weights. `false`: no cache. Default: a folder in the user's cache
   * folder, with 4 GiB; the environment variable `ZEROHOP_CACHE` (`off`, or a folder) changes this default.
   */
  cache?: false | CacheOptions
  /**
   * Whether unknown models are verified first.
   *
   * - `'child'`: a model new to this machine is loaded and run in a child process first, which writes its compiled form. If
   *   it crashes or hangs that process, the load rejects (`ERR_MODEL_LOAD`).
   * - `'none'`: no child process, so nothing is compiled; the cache is only read. The environment variable
   *   `ZEROHOP_VERIFY=none` makes this the default.
   *
   * Default `'child'`.
   */
  verify?: VerifyChoice
  /**
   * Milliseconds that child process may take in ONNX Runtime to open the model, to run it, and to open and run its compiled
   * form, each. Default: 60 000, plus 100 per MiB of the model.
   */
  verifyTimeoutMs?: number
  /**
   * Traces the timestamps of requests and, if wanted, their tensors, as in Triton; see {@link EngineTrace}. Default:
   * none.
   */
  trace?: TraceOptions
}

/** Engine options with defaults in place. */
export type ResolvedEngineOptions = Readonly<ReturnType<typeof resolveEngineOptions>>

const positiveInteger = wholeNumber(1)

/** Schema of the options that threads of every kind share. */
export const threadEntries = {
  resourceLimits: v.optional(
    optionsOf({
      maxYoungGenerationSizeMb: v.optional(positiveNumber),
      maxOldGenerationSizeMb: v.optional(positiveNumber),
      codeRangeSizeMb: v.optional(positiveNumber),
      // With a smaller stack a thread cannot start, and Node.js ends the process.
      stackSizeMb: v.optional(v.pipe(positiveNumber, v.minValue(0.25))),
    }),
  ),
  execArgv: v.optional(v.array(v.string())),
  env: v.optional(v.pipe(properties, v.record(v.string(), v.string()))),
  startTimeoutMs: v.optional(positiveInteger),
}

const schema = declares<EngineOptions>()({
  cpuWorkers: v.optional(wholeNumber(1, 1024)),
  executor: v.optional(v.picklist(['auto', 'native', 'binding']), 'auto'),
  inline: v.optional(
    v.union([
      v.literal(false),
      optionsOf({
        maxUs: v.optional(
          v.pipe(
            v.number(),
            v.check((us) => us >= 0 && us < Infinity, 'microseconds, at least 0'),
          ),
          defaultInline.maxUs,
        ),
        loopShare: v.optional(share, defaultInline.loopShare),
      }),
    ]),
    {},
  ),
  staging: v.optional(
    optionsOf({
      kind: v.optional(v.picklist(['auto', 'native', 'shared', 'copied'])),
      limitBytes: v.optional(wholeNumber(0, Infinity)),
    }),
    {},
  ),
  providers: v.optional(providersSchema, {}),
  workers: v.optional(optionsOf({ ...threadEntries, niceIncrement: v.optional(wholeNumber(0, 19), 5) }), {}),
  cache: cacheSchema,
  verify: v.optional(v.picklist(['child', 'none'])),
  verifyTimeoutMs: v.optional(positiveInteger),
  trace: traceSchema,
})

/**
 * Checks the options of an engine and fills in defaults.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function resolveEngineOptions(options: unknown = {}) {
  const { cpuWorkers, inline, staging, workers, cache, verify, trace, ...plain } = parseOptions(
    schema,
    options,
    'options',
  )
  if (plain.executor === 'binding' && plain.providers.length > 0) {
    throw invalidArgument(
      'options.providers',
      "to be omitted with executor: 'binding', which cannot use plugins",
      plain.providers[0]!.name,
      { hint: "Take executor: 'native'" },
    )
  }
  const cores = availableCores().usable
  return {
    ...plain,
    cores,
    cpuWorkers: cpuWorkers ?? cores,
    /** `null` for no inline runs. */
    inline: inline === false ? null : (inline as Required<InlineOptions>),
    staging: staging as StagingOptions,
    workers: workers as WorkerOptions,
    /** `null` for none. */
    cache: resolveCache(cache as false | CacheOptions | undefined),
    verify: resolveVerify(verify),
    trace: resolveTraceOptions(trace as TraceOptions | undefined),
  }
}
