import type { AutoTuneOptions } from './auto-tune-options.ts'
import type { InferenceSession } from 'onnxruntime-common'
import type { DynamicBatchingConfig } from './batching-config.ts'
import type { InstanceGroup } from './instance-group.ts'
import type { Feeds } from './model-signature.ts'
import type { SequenceConfig } from './sequence-config.ts'
import type { InputConfig, OutputConfig } from './tensor-config.ts'

/**
 * How rows of different lengths share a run: they are filled up to a common length along one dimension, and outputs are
 * cut back to the request's own. The model must give the same for the real part whatever it was filled up with, which
 * usually takes an attention mask among the padded inputs.
 */
export interface PaddingConfig {
  /** The input to pad: of numbers that have bytes of their own, which those of `int4` and `uint4` have not. */
  input: string
  /** The dimension to pad: an index into the input's dims, batch dimension included. */
  dim: number
  /**
   * Lengths to fill up to: each request goes to the bucket of the smallest that holds it, and one longer than all runs
   * with its own length. `'longest'`: all lengths share batches, filled up to the longest in each. Default `'longest'`.
   */
  sizes?: readonly number[] | 'longest'
  /** What to fill with: a number that the input's type has, or rounds to another than 0 or infinity. Default 0. */
  value?: number
  /**
   * Outputs that have the padded length, and their dimension that has it; each in one entry, once. One that turns out to
   * have another length fails the run (`ERR_EXECUTION`). Default: none.
   */
  outputs?: readonly { name: string; dim: number }[]
}

/** An execution provider with options by the names that it has for them itself. */
export interface ProviderOptions {
  /** As ONNX Runtime or its plugin calls it: `cpu`, `cuda`, `openvino`. */
  readonly name: string
  /** Whether the model may not be loaded without it. Default `false`: the next that is listed takes its place. */
  readonly required?: boolean
  readonly [option: string]: unknown
}

/**
 * Memory that ONNX Runtime takes from the system for the intermediate values of runs on the CPU. Its arena keeps what it has
 * once taken, so that the next run need not ask for it: the largest run leaves that much until the model is unloaded.
 */
export interface MemoryOptions {
  /** `false`: none is kept, each run takes and gives back its own. Instead of `sessionOptions.enableCpuMemArena`. Default `true`. */
  arena?: boolean
  /**
   * When the arena gives back what is not in use, but for a first piece of a mebibyte: after each `'run'`, or once the
   * model has been `'idle'` for two seconds. Native executor only. Default: never.
   */
  shrink?: 'run' | 'idle'
  /**
   * Most that the arena keeps after a run beside what is in use (the weights), in bytes: one that keeps more gives that back,
   * but for a first piece of a mebibyte. A run may take more. Native executor only. Default: no limit.
   */
  limitBytes?: number
}

/** ONNX Runtime's options of a session; {@link ModelOptions.executionProviders} are apart. */
export interface SessionOptions extends InferenceSession.SessionOptions {
  /** As `freeDimensionOverrides`, which are by name, by what dimensions denote (`DATA_BATCH`). For the native executor. */
  readonly freeDimensionOverridesByDenotation?: Readonly<Record<string, number>>
}

/** Options of every run of a model. */
export interface RunOptions {
  /** ONNX Runtime's run config entries, in groups or by their full names; every value is text. */
  readonly extra?: Readonly<Record<string, unknown>>
}

/** What is kept of a model's answers. */
export interface ResponseCacheOptions {
  /** Most bytes of answers, with what JavaScript takes to hold them; those that were not asked for longest go first. Default 64 MiB. */
  maxBytes?: number
  /** As {@link ModelOptions.coalesce}. Default `true`. */
  coalesce?: boolean
}

/** A request sent to each instance before the model is ready. */
export interface WarmupSample {
  feeds: Feeds
  /** How often. Default 1. */
  count?: number
}

/** What each instance runs before the model is ready. */
export interface WarmupOptions {
  /**
   * What runs are given. Made up are zeros or random values (integers from 1 to 7, as few models take others) for each size
   * of `padding`, with lengths that the model takes; what fails of that is left out. Zeros go into integers, too: not for a
   * model that divides by one, which ends the process. Samples have to run, or the load fails. Default `'zeros'`.
   */
  data?: 'zeros' | 'random' | readonly WarmupSample[]
  /**
   * Rows of the runs: each of these sizes, or `'all'` that are told apart (1, 2, 4, 8 ... up to the largest, and the preferred
   * ones). Of a sample its first row is repeated. What needs more than 128 MiB of inputs is left out, and so is more than a
   * batch may have. Default: one row, and samples as they are.
   */
  batchSizes?: readonly number[] | 'all'
  /**
   * How often each run on made-up data is made. Default 2: the first of a shape finds out what memory it takes, and the second is the
   * first to take it in one piece.
   */
  count?: number
}

/** A model in a file. */
interface ModelFile {
  /** The `.onnx` (or `.ort`) file: a path, or a `file:` URL (as text, too). External data files are looked for beside it. */
  path: string | URL
  bytes?: undefined
}

/** A model in memory. */
interface ModelBytes {
  path?: undefined
  /**
   * The contents of such a file. They are copied once by `load()`, and may be changed or dropped afterwards; the copy is
   * shared by all instances, and kept until the model is released, to open it again should a worker die. While a session
   * is opened its worker holds another. External data is given beside it (`sessionOptions.externalData`).
   */
  bytes: Uint8Array | ArrayBuffer
}

/** What may be said of a model, wherever it comes from. */
export interface ModelOptions {
  /**
   * Which version of the name this is: a whole number from 1 to 2^53 - 1, as a number or as the text of a folder's name. A
   * version that is loaded already is replaced; another one stands beside it. Default 1.
   */
  version?: number | string
  /**
   * Most rows in one run. 0: every request is its own run, as it is. Left out: 32 where the graph proves that no row changes
   * another, or, where it leaves that open, runs show it; else 0. Requests of more rows then run alone as they are. Given: rows are believed to be independent, and what shows otherwise warns once. See `metadata.joining`.
   */
  maxBatchSize?: number
  /** Most rows in one run where `maxBatchSize` is left out and rows are found to be independent. Default 32. */
  defaultMaxBatchSize?: number
  /** Inputs as requests give them; all of the model's, but for those that `sequence` fills. Default: as the model has them. */
  inputs?: readonly InputConfig[]
  /** Outputs as requests get them; others of the model's are left out. Default: all, as the model has them. */
  outputs?: readonly OutputConfig[]
  /**
   * What clients are told of the model over KServe (`/config`) beside what its file says of itself, by name: names of classes, say. Changes
   * nothing else. In a repository those of its `config.pbtxt`. Default: none.
   */
  parameters?: Readonly<Record<string, string>>
  /** For a model whose requests belong to sequences (`infer(feeds, { sequenceId })`). Default: none. */
  sequence?: SequenceConfig
  /**
   * Whether runs on made-up rows, and on copies of the first requests, find out if rows depend on each other where the graph leaves
   * that open; see `metadata.joining`. `false`: without `maxBatchSize` only what the graph proves is joined; with it the graph is not
   * asked either, and nothing is warned about. Default `true`.
   */
  checkRows?: boolean
  /** `false`: requests are never joined, though one request may still hold several rows. Default: `{}`. */
  dynamicBatching?: DynamicBatchingConfig | false
  /** Default: one instance of kind `'auto'`. */
  instanceGroup?: readonly InstanceGroup[]
  /**
   * Passed to ONNX Runtime, after this library's defaults: `interOpNumThreads: 1`, threads that spin for 20 us (`'session.intra_op.spin_duration_us'`) before they sleep, and `logSeverityLevel: 4`,
   * as errors come as exceptions. Entries of `extra` may be given in groups or by their full names
   * (`{ 'session.intra_op.allow_spinning': '1' }`). `externalData` are the contents of files that `bytes` refer to.
   */
  sessionOptions?: SessionOptions
  /** ONNX Runtime's config entries of each run (`{ extra: { 'memory.enable_memory_arena_shrinkage': 'cpu:0' } }`); for the native executor. */
  runOptions?: RunOptions
  /**
   * Execution providers in order of preference; overrides what `instanceGroup` implies. One that is not there, or finds no device,
   * is left out with a warning (`ZEROHOP_PROVIDER_FALLBACK`); `metadata.executionProviders` says which are used, and why others are
   * not. Without `'cpu'` one of those listed has to be there, else the load fails (`ERR_MODEL_LOAD`); ONNX Runtime still runs on the
   * CPU what they cannot, unless `session.disable_cpu_ep_fallback` is `'1'` in `sessionOptions.extra`, and then `'cpu'` is nothing
   * to fall back to. A wrong option of a provider that is there fails the load.
   *
   * A provider plugin is named as in `EngineOptions.providers`; beside options of its own it takes `device` (`'cpu'`, `'gpu'`,
   * `'npu'`; default: its first), `deviceId` (the how-manieth of those) and `precision`.
   */
  executionProviders?: readonly (InferenceSession.ExecutionProviderConfig | ProviderOptions)[]
  /** Whether every execution provider that is asked for, in that list or by a kind of instances, has to be there. Default `false`. */
  required?: boolean
  /**
   * `true`: one run on zeros per session and size of `padding`, where all inputs are floating point with known row shapes (not
   * where `checkRows` has run it); `false`: none; samples to run on each instance, whose rows take part in that check, and of
   * which one that fails makes the load fail; or {@link WarmupOptions}. Instances are warmed at the same time, before they
   * take a batch, and none of it is in the statistics. Default `true`.
   */
  warmup?: boolean | readonly WarmupSample[] | WarmupOptions
  /** What is kept of the memory that runs on the CPU take. */
  memory?: MemoryOptions
  /**
   * Latency in milliseconds that 99 of 100 requests should keep: batch size and closing time are chosen by the times of
   * recent runs (measured first during the load) to serve as many rows per second as possible within it, and requests
   * that cannot be answered in time are refused at once with `ERR_DEADLINE`. Default: none.
   */
  latencyTargetMs?: number
  /**
   * Longest time of a run, in milliseconds; a run that takes longer is stopped. Was it of one request, that rejects with
   * `ERR_TIMEOUT`; else its requests are run again in halves, until those are found that take too long by themselves. More
   * than the largest batch takes. A run that does not stop is left to itself after a second: another thread takes the place
   * of its worker. Runs of the check at load and of warming up are stopped as well. Default: none.
   */
  maxRunMs?: number
  /**
   * Inputs that a request may leave out. The graph must be able to do without: it asks with `OptionalHasElement`, or no
   * node reads them; where one does, ONNX Runtime fails the run (`ERR_EXECUTION`). Requests batch together only when they
   * give the same inputs.
   *
   * An initializer that is an input as well has a value of its own: it is an input of requests only where this or `inputs` names it, and
   * only on the native executor. Named here, a request that leaves it out gets the model's own value. Default: none.
   */
  optionalInputs?: readonly string[]
  /** Share of a worker's time relative to other models on it when all have work, 1e-6 to 1e6. Default 1. */
  weight?: number
  /** Lets requests of different lengths share a run; several entries for several inputs. Default: none. */
  padding?: PaddingConfig | readonly PaddingConfig[]
  /**
   * Whether requests may be run again whose run a worker died over: once, and each by itself. Only for models whose runs
   * leave no trace. Default `false`: they reject with `ERR_INSTANCE_CRASHED`.
   */
  rerunAfterCrash?: boolean
  /**
   * Guards against NaN and infinity, in floats of every width (also `bfloat16` and those of 8 bits, NaN alone where a type
   * has no infinity), in sequences and in maps: `'inputs'` refuses a request that has any (`ERR_INVALID_ARG`), `'outputs'` rejects
   * the request whose own rows have any (`ERR_EXECUTION`). Costs a look at every element. Default: neither.
   */
  rejectNonFinite?: 'inputs' | 'outputs'
  /**
   * Whether a request of more than `maxBatchSize` rows is run in several batches and joined again, which is one request to
   * its caller, to the order of answers and to the statistics. Default `false`: it is refused where `maxBatchSize` was given,
   * else it runs alone as it is. One of more than 10 000 parts, or of more than 100 when its rows have no element, is refused;
   * one with an output that has not one entry per row fails (`ERR_EXECUTION`).
   */
  splitOversized?: boolean
  /**
   * Keeps answers, and gives a copy to whoever asks the same again: requests with the same bytes in inputs of the same names, types
   * and dims, for the same outputs. For models whose answers follow from their inputs alone: with a random operator in the graph
   * one draw would be everybody's. Every request is hashed, and its data is read by the call itself; see {@link Model.infer}. Errors
   * are not kept, and nothing outlives the model that was loaded. Not beside `sequence`. Default `false`.
   */
  responseCache?: boolean | ResponseCacheOptions
  /**
   * Whether a request that comes while an equal one waits or runs shares its run, as one row among the others: each caller gets a
   * copy of its own, and an abort, a timeout or a deadline is its caller's alone. Default: `true` with a `responseCache`, else `false`.
   */
  coalesce?: boolean
  /**
   * Whether the model finds out while it serves what gives most rows a second: larger batches, or more instances with fewer threads each.
   * Whenever there is as much to do as it can do, it tries some settings for half a second each, and keeps the best if that is better
   * by 3 %; it looks again when the load has become another one, after a minute at the earliest and ever more rarely. What came of
   * that is in `stats().autoTune`. Not beside `latencyTargetMs`, `sequence`, several groups of instances or groups that scale. Default `false`.
   */
  autoTune?: boolean | AutoTuneOptions
}

/** Configuration of one model. Exactly one of `path` and `bytes` says where it comes from. */
export type ModelConfig = ModelOptions & (ModelFile | ModelBytes)
