import * as v from 'valibot'
import type { ResourceLimits } from 'node:worker_threads'
import { resolve } from 'node:path'
import { invalidArgument } from '../errors.ts'
import { availableCores } from '../base/available-resources.ts'
import { declares, parseOptions, optionsOf, properties, wholeNumber } from './options-schema.ts'

import {
  resolveTraceOptions,
  traceSchema,
  type ResolvedTraceOptions,
  type TraceOptions,
} from './trace-options.ts'
import { filePath } from '../base/files.ts'

/** The type of numbers that a provider computes in, whatever those of the model are. */
export type ComputePrecision = 'float32' | 'float16' | 'bfloat16'

export const computePrecisions: readonly ComputePrecision[] = ['float32', 'float16', 'bfloat16']

/** An execution provider that is a library of its own; see {@link EngineOptions.providers}. */
export interface ProviderPlugin {
  /** The library: a path, or a `file:` URL. It is loaded by the first model that asks for it, and stays for the life of the process. */
  library: string | URL
  /** The type of numbers it is to compute in. Default: what the provider chooses, which may be less than the model's own. */
  precision?: ComputePrecision
  /** Options of its sessions, unless a model gives others in its `executionProviders`. */
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

/** How one session uses a plugin: an entry of its `executionProviders`. */
export class PluginProvider {
  readonly name: string
  /** Of those that the plugin offers. */
  readonly device: number
  readonly entries: Readonly<Record<string, string>>
  /** Whether threads may run one session at the same time. */
  readonly sharable: boolean
  /** `null` for the provider's own choice. */
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

/** Names that mean something else. */
const taken = new Set(['auto', 'cpu', 'cuda'])
const nameSchema = v.pipe(
  v.string(),
  v.check(
    (name) => /^[a-z][a-z0-9_-]{0,63}$/.test(name) && !taken.has(name),
    "a name of lower-case letters, digits, '_' and '-' that is not auto, cpu or cuda",
  ),
)

/** Schema of `EngineOptions.providers`. */
export const providersSchema = v.pipe(
  properties,
  v.record(
    nameSchema,
    optionsOf({
      library: v.pipe(v.custom<string | URL>((given) => filePath(given) !== null, 'a path or a file: URL')),
      precision: v.optional(v.picklist(computePrecisions)),
      options: v.optional(properties, {}),
    }),
  ),
  v.transform((plugins) =>
    Object.entries(plugins).map(([name, plugin]): ResolvedPlugin => {
      const { library, precision, options } = plugin as {
        library: string | URL
        precision?: ComputePrecision
        options: Readonly<Record<string, unknown>>
      }
      return { name, library: resolve(filePath(library)!), precision, options }
    }),
  ),
)

/** Settings of the cache of compiled models. */
export interface CacheOptions {
  /**
   * Its folder, a path or a `file:` URL, in which only this user may write; it is made if it is not there. Default: `zerohop` in the
   * user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`; `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows).
   */
  dir?: string | URL
  /** Most bytes that it keeps; what was not used for the longest time goes first. Default 4 GiB. */
  maxBytes?: number
}

/** Where a model is opened that is not known yet; see {@link EngineOptions.verify}. */
export type VerifyChoice = 'child' | 'none'

/** The cache with its options checked. */
export interface ResolvedCache {
  /** Absolute; `null` for the one in the user's cache folder. */
  readonly dir: string | null
  readonly maxBytes: number
}

/** What a model's sessions are opened from. */
export interface ModelOrigin {
  /** Whether that is its compiled form, out of the cache. */
  readonly compiled: boolean
  /** Why, or why not. */
  readonly reason: string
}

/** The cache of compiled models, as `engine.capabilities()` shows it. */
export interface CacheCapability {
  /** Whether compiled models are read from it and written to it. */
  readonly enabled: boolean
  /** Its folder; `null` for none. */
  readonly dir: string | null
  /** Why it is in use, or is not. */
  readonly reason: string
  /** What each of the engine's models was opened from, by its name; of several versions the one that serves. */
  readonly models: Readonly<Record<string, ModelOrigin>>
}

const defaultMaxBytes = 4 * 2 ** 30

/** Schema of `EngineOptions.cache`. */
export const cacheSchema = v.optional(
  v.union([
    v.literal(false),
    optionsOf({
      dir: v.optional(v.custom<string | URL>((given) => filePath(given) !== null, 'a path or a file: URL')),
      maxBytes: v.optional(v.pipe(v.number(), v.integer('a whole number'), v.minValue(0))),
    }),
  ]),
)

/** The cache that was asked for, or else the one of the environment variable `ZEROHOP_CACHE` (`off`, or a folder); `null` for none. */
export function resolveCache(
  given: false | CacheOptions | undefined,
  environment = process.env.ZEROHOP_CACHE,
): ResolvedCache | null {
  if (given === false || (given === undefined && environment === 'off')) return null
  const usual = environment === undefined || environment === '' || environment === 'off' ? null : environment
  const dir = given?.dir === undefined ? usual : filePath(given.dir)
  return { dir: dir === null ? null : resolve(dir), maxBytes: given?.maxBytes ?? defaultMaxBytes }
}

/** As {@link resolveCache}, of `EngineOptions.verify` and `ZEROHOP_VERIFY`. */
export function resolveVerify(
  given: VerifyChoice | undefined,
  environment = process.env.ZEROHOP_VERIFY,
): VerifyChoice {
  return given ?? (environment === 'none' ? 'none' : 'child')
}

/** Settings of worker threads, all but the last two passed on to `node:worker_threads`. */
export interface WorkerOptions {
  /**
   * A thread that reaches a limit is replaced, mostly: where that happens inside ONNX Runtime, as it makes strings, or
   * in V8's own collector, the process ends. Good against leaks, no protection from large outputs.
   */
  resourceLimits?: ResourceLimits
  /** Node's own options for the threads, such as `--max-old-space-size`. Default: the process's. */
  execArgv?: string[]
  /**
   * `process.env` of the threads; a copy of the application's by default. Native code does not see it, except that
   * `ORT_DISABLE_TELEMETRY` is set for the process as it says here, unless the process has that variable.
   */
  env?: Record<string, string>
  /**
   * How long a worker may take to start, in milliseconds; then the load fails. A thread that hangs inside ONNX Runtime
   * is left to itself and ends when it comes back. Default 60 000.
   */
  startTimeoutMs?: number
  /**
   * By how much threads that run models give way to the application's own, on Linux and with the native executor: added to their
   * niceness, 0 to 19. Where all cores are busy it keeps the event loop on time, at the same throughput: on 2 cores the p99 of its
   * delay was 0.6 ms instead of 2 ms. What else runs on the machine at niceness 0 goes before them, too. Default 5, as Triton's.
   */
  niceIncrement?: number
}

/** Settings of the process-wide staging pool. */
export interface StagingOptions {
  /**
   * `auto` takes the best there is; another value asks for that kind and fails with `ERR_NATIVE_LOAD` without it: `native` for the
   * native executor; `shared`, or `copied` where onnxruntime-node refuses shared memory, for the binding.
   */
  kind?: 'auto' | 'native' | 'shared' | 'copied'
  /**
   * Most native memory that is kept, in bytes; one limit for the process, with 256 MiB by default. An engine that leaves it
   * out follows the others; of several that ask the largest counts while its engine is open, and who asks for less is
   * warned (`ZEROHOP_STAGING_LIMIT`). A slot that finds no room gets plain memory of its own, which is not page-locked.
   *
   * What is past the limit, and slots of more than an eighth of it (of 32 MiB at most), go back to the system two seconds after
   * the last batch that needed them, and when the model is unloaded. With the binding, shared memory goes back when the
   * application's thread has collected garbage, too.
   */
  limitBytes?: number
}

/** How ONNX Runtime is called; see {@link EngineOptions.executor}. */
export type ExecutorChoice = 'auto' | 'native' | 'binding'

/** Which batches the application's thread runs itself; see {@link EngineOptions.inline}. */
export interface InlineOptions {
  /** The longest run, by what such runs have taken, in microseconds; half as long while further requests wait. Default 100. */
  maxUs?: number
  /** The share of the thread's time that goes into them at most, up to 1. Default 0.5. */
  loopShare?: number
}

/** What is run inline where nothing else is said. */
export const defaultInline: Required<InlineOptions> = { maxUs: 100, loopShare: 0.5 }

/** Options of an {@link InferenceEngine}. */
export interface EngineOptions {
  /**
   * Most worker threads that compute on the CPU. Default: the cores available. Instances, of one model or of several, are
   * spread over them; threads are started as instances need them. The cores are divided among the instances of a model.
   */
  cpuWorkers?: number
  /**
   * How ONNX Runtime is called: `native` by the addon, on threads without JavaScript (a load fails with `ERR_NATIVE_LOAD` where
   * that cannot be had); `binding` through onnxruntime-node. `auto`, the default, is `native` where that can be had, else
   * `binding`, with the reason in `capabilities().executor`; the environment variable `ZEROHOP_EXECUTOR=binding` makes it that.
   */
  executor?: ExecutorChoice
  /**
   * With the native executor, a batch whose run takes less than to hand it to a worker is run by the application's thread, there
   * and then, when its worker is idle; half a millisecond of runs at a stretch at most. `false`: none is.
   */
  inline?: false | InlineOptions
  /** Memory through which tensors reach the workers. */
  staging?: StagingOptions
  /**
   * Execution providers that are libraries of their own (ONNX Runtime's provider plugins), by the names by which models ask for
   * them: `executionProviders: ['openvino', 'cpu']` or `instanceGroup: [{ kind: 'openvino' }]`. They take the native executor.
   * Each is tried in a process of its own first; one that cannot be used is
   * left out with a warning (`ZEROHOP_PROVIDER_FALLBACK`), and `capabilities().providers` says why.
   */
  providers?: Readonly<Record<string, ProviderPlugin>>
  /** Passed on to the worker threads. */
  workers?: WorkerOptions
  /**
   * Where models are kept in compiled form, which later loads of the same model open in this and in any other process of this user: in
   * a few per cent of the time, with one copy of the weights for all of them. `false`: nowhere. Default: a folder in the user's cache
   * folder, and 4 GiB; the environment variable `ZEROHOP_CACHE` (`off`, or a folder) makes it that.
   */
  cache?: false | CacheOptions
  /**
   * `'child'`: a model that this machine does not know is loaded, run once and compiled in a process of its own first, and one that ends
   * that process, or does not come back, rejects its load (`ERR_MODEL_LOAD`). `'none'`: no process is started, and so nothing is compiled; what the
   * cache has is used. Default `'child'`; the environment variable `ZEROHOP_VERIFY=none` makes it `'none'`.
   */
  verify?: VerifyChoice
  /** How long that process may take, in milliseconds. Default: 60 000, and 100 for each MiB of the model. */
  verifyTimeoutMs?: number
  /** Writes down when requests came how far, and their tensors if wanted, as Triton does; see {@link EngineTrace}. Default: nothing. */
  trace?: TraceOptions
}

/** Engine options with defaults in place. */
export interface ResolvedEngineOptions {
  readonly cores: number
  readonly cpuWorkers: number
  readonly executor: ExecutorChoice
  /** `null` for no inline runs. */
  readonly inline: Required<InlineOptions> | null
  readonly staging: StagingOptions
  readonly providers: readonly ResolvedPlugin[]
  readonly workers: WorkerOptions
  /** `null` for none. */
  readonly cache: ResolvedCache | null
  readonly verify: VerifyChoice
  /** `undefined`: by the size of the model. */
  readonly verifyTimeoutMs: number | undefined
  readonly trace: ResolvedTraceOptions
}

const positiveInteger = wholeNumber(1)

const positiveNumber = v.pipe(
  v.number(),
  v.check((value) => value > 0 && value < Infinity, 'a finite number above 0'),
)

/** Schema of what threads of every kind may be told. */
export const threadEntries = {
  resourceLimits: v.optional(
    optionsOf({
      maxYoungGenerationSizeMb: v.optional(positiveNumber),
      maxOldGenerationSizeMb: v.optional(positiveNumber),
      codeRangeSizeMb: v.optional(positiveNumber),
      // Node ends the process where a thread's stack is too small for its own start.
      stackSizeMb: v.optional(v.pipe(positiveNumber, v.minValue(0.25))),
    }),
  ),
  execArgv: v.optional(v.array(v.string())),
  env: v.optional(v.pipe(properties, v.record(v.string(), v.string()))),
  startTimeoutMs: v.optional(positiveInteger),
}

const schema = declares<EngineOptions>()(
  optionsOf({
    cpuWorkers: v.optional(v.pipe(positiveInteger, v.maxValue(1024))),
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
          loopShare: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1)), defaultInline.loopShare),
        }),
      ]),
      {},
    ),
    staging: v.optional(
      optionsOf({
        kind: v.optional(v.picklist(['auto', 'native', 'shared', 'copied'])),
        limitBytes: v.optional(v.pipe(v.number(), v.integer('a whole number'), v.minValue(0))),
      }),
      {},
    ),
    providers: v.optional(providersSchema, {}),
    workers: v.optional(
      optionsOf({
        ...threadEntries,
        niceIncrement: v.optional(
          v.pipe(v.number(), v.integer('a whole number'), v.minValue(0), v.maxValue(19)),
          5,
        ),
      }),
      {},
    ),
    cache: cacheSchema,
    verify: v.optional(v.picklist(['child', 'none'])),
    verifyTimeoutMs: v.optional(positiveInteger),
    trace: traceSchema,
  }),
)

/**
 * Checks the options of an engine and fills in defaults.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function resolveEngineOptions(options: unknown = {}): ResolvedEngineOptions {
  const { cpuWorkers, executor, inline, staging, providers, workers, cache, verify, verifyTimeoutMs, trace } =
    parseOptions(schema, options, 'options')
  if (executor === 'binding' && providers.length > 0) {
    throw invalidArgument(
      'options.providers',
      "to be left out with executor: 'binding', which cannot use plugins",
      providers[0]!.name,
      { hint: "Take executor: 'native'" },
    )
  }
  const cores = availableCores().usable
  return {
    cores,
    cpuWorkers: cpuWorkers ?? cores,
    executor,
    inline: inline === false ? null : (inline as Required<InlineOptions>),
    staging: staging as StagingOptions,
    providers,
    workers: workers as WorkerOptions,
    cache: resolveCache(cache as false | CacheOptions | undefined),
    verify: resolveVerify(verify),
    verifyTimeoutMs,
    trace: resolveTraceOptions(trace as TraceOptions | undefined),
  }
}
