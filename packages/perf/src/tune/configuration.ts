import type { DynamicBatchingConfig, InstanceKind, ModelOptions } from 'zerohop'
import { availableCores } from 'zerohop/internals'
import type { TuneSettings } from './tune-settings.ts'

/** The model options that the tuner varies; others stay unchanged. */
export interface Configuration {
  readonly instances: number
  /** Intra-op threads per session. */
  readonly threads: number
  /** Most rows per run; 0 for a model whose requests are not joined. */
  readonly maxBatchSize: number
  readonly maxQueueDelayMs: number
  /** Highest cost of a batch; left out for no limit. */
  readonly maxBatchCost?: number
}

/**
 * How requests are sent: by callers that each wait for their answers, or at a rate per second without
 * waiting.
 */
export type Load =
  | { readonly concurrency: number; readonly rate?: undefined }
  | { readonly rate: number; readonly concurrency?: undefined }

/** A configuration under a load. */
export interface Candidate {
  readonly configuration: Configuration
  readonly load: Load
}

/** Equal for equal candidates. */
export function keyOf({ configuration, load }: Candidate): string {
  return `${configurationKey(configuration)} ${load.rate === undefined ? `c${load.concurrency}` : `r${load.rate}`}`
}

/** Equal for equal configurations. */
export function configurationKey(configuration: Configuration): string {
  const { instances, threads, maxBatchSize, maxQueueDelayMs, maxBatchCost } = configuration
  return `i${instances} t${threads} b${maxBatchSize} d${maxQueueDelayMs}${maxBatchCost === undefined ? '' : ` c${maxBatchCost}`}`
}

/** Options of `engine.load()` for a configuration, on top of the given options. */
export function optionsFor(
  { instances, threads, maxBatchSize, maxQueueDelayMs, maxBatchCost }: Configuration,
  given: ModelOptions,
  kind: InstanceKind,
): ModelOptions {
  const { dynamicBatching, ...others } = given
  const { maxBatchCost: _, overCostAction, ...kept }: DynamicBatchingConfig = dynamicBatching || {}
  const budget = maxBatchCost === undefined ? {} : { maxBatchCost, ...(overCostAction && { overCostAction }) }
  return {
    ...others,
    maxBatchSize,
    ...(maxBatchSize > 1
      ? { dynamicBatching: { ...kept, ...budget, maxQueueDelayMs } }
      : dynamicBatching === undefined
        ? {}
        : { dynamicBatching }),
    instanceGroup: [{ kind, count: instances }],
    sessionOptions: { ...given.sessionOptions, intraOpNumThreads: threads },
  }
}

/**
 * Options for measuring a configuration or the model's defaults. The response cache is off, as the same
 * requests repeat.
 */
export function measuredOptions(
  configuration: Configuration | null,
  options: ModelOptions,
  kind: InstanceKind,
): ModelOptions {
  const { responseCache: _, coalesce: __, ...given } = options
  if (configuration !== null) return optionsFor(configuration, given, kind)
  return kind === 'auto' ? given : { ...given, instanceGroup: [{ kind }] }
}

/** The number of instances of a model, and threads per instance. */
export interface Layout {
  readonly instances: number
  readonly threads: number
}

/** Whether something is measured in that layout. */
export const isOf =
  ({ instances, threads }: Layout) =>
  (point: Layout): boolean =>
    point.instances === instances && point.threads === threads

/** The values to search; for missing ones the tuner chooses by the machine and run times. */
export interface SearchSpace {
  readonly instances?: readonly number[] | undefined
  readonly threads?: readonly number[] | undefined
  /** Most rows per run. */
  readonly batchSizes?: readonly number[] | undefined
  readonly delaysMs?: readonly number[] | undefined
  /** Highest costs of a batch, 0 for no limit; for a model with a cost configured. */
  readonly batchCosts?: readonly number[] | undefined
}

/** Largest batch size tried by default. */
const largestBatch = 128
/** Delays to try, as fractions of the run time of the largest batch. */
const delayShares = [0.25, 1]

/**
 * Layouts that use at most the machine's cores, those that use all first. If instances or threads are given,
 * all of their values are used, whatever the product.
 */
export function layoutsOf({ instances, threads }: SearchSpace, cores: number): Layout[] {
  const counts = [...new Set([...powersOf2(cores), cores])]
  const layouts: Layout[] = []
  for (const count of instances ?? counts) {
    const fitting = [...new Set([...counts, Math.floor(cores / count)])].filter(
      (each) => each >= 1 && each * count <= cores,
    )
    for (const each of threads ?? (fitting.length > 0 ? fitting : [1]))
      layouts.push({ instances: count, threads: each })
  }
  const idle = ({ instances: count, threads: each }: Layout) => Math.abs(cores - count * each)
  return layouts.sort((a, b) => idle(a) - idle(b) || a.instances - b.instances || a.threads - b.threads)
}

/** Batch sizes to try, ascending; `[0]` for a model whose requests are not joined. */
export function batchSizesOf(
  { batchSizes }: SearchSpace,
  isJoined: boolean,
  rowsPerRequest: number,
): number[] {
  if (!isJoined) return [0]
  const sizes = batchSizes ?? powersOf2(largestBatch)
  const enough = sizes.filter((size) => size >= rowsPerRequest)
  return [...new Set(enough.length > 0 ? enough : [rowsPerRequest])].sort((a, b) => a - b)
}

/** Delays to try for batches with this run time, 0 first. Batches of one request do not wait. */
export function delaysOf(
  { delaysMs }: SearchSpace,
  {
    maxBatchSize,
    runMs,
    rowsPerRequest,
  }: { readonly maxBatchSize: number; readonly runMs: number; readonly rowsPerRequest: number },
): number[] {
  if (maxBatchSize < 2 * rowsPerRequest) return [0]
  return [...new Set(delaysMs ?? [0, ...delayShares.map((share) => roundNumber(runMs * share))])].sort(
    (a, b) => a - b,
  )
}

/** Callers needed so that on each instance a full batch always waits while another runs. */
export function saturating({ instances, maxBatchSize }: Configuration, rowsPerRequest: number): number {
  return 2 * instances * Math.max(1, Math.floor(maxBatchSize / rowsPerRequest))
}

function powersOf2(most: number): number[] {
  return Array.from({ length: Math.floor(Math.log2(most)) + 1 }, (_, exponent) => 2 ** exponent)
}

/** The nearest of 1, 2 and 5 times a power of ten. */
export function roundNumber(value: number): number {
  if (!(value > 0)) return 0
  const power = 10 ** Math.floor(Math.log10(value))
  const nearest = [1, 2, 5, 10].reduce((best, step) =>
    Math.abs(Math.log((step * power) / value)) < Math.abs(Math.log((best * power) / value)) ? step : best,
  )
  return Number((nearest * power).toPrecision(1))
}

/** What a model has by default, when it was loaded with these options. */
export function defaultConfiguration(
  { sessionOptions, dynamicBatching }: ModelOptions,
  instances: number,
  maxBatchSize: number,
): Configuration {
  const threads =
    sessionOptions?.intraOpNumThreads ?? Math.max(1, Math.floor(availableCores().usable / instances))
  const { maxQueueDelayMs = 0, maxBatchCost }: DynamicBatchingConfig = dynamicBatching || {}
  return {
    instances,
    threads,
    maxBatchSize,
    maxQueueDelayMs,
    ...(maxBatchCost === undefined ? {} : { maxBatchCost }),
  }
}

/** Default budgets in tokens: from a few sentences to what large accelerators process at once. */
const usualBudgets = [1024, 4096, 16_384]

/**
 * Batch budgets to try if a cost is configured, 0 for none: the given ones, or some around the configured
 * one. Empty without a cost.
 */
export function budgetsOf(
  named: readonly number[] | undefined,
  { dynamicBatching }: Pick<ModelOptions, 'dynamicBatching'>,
): number[] {
  if (!dynamicBatching || dynamicBatching.cost === undefined) return []
  const { maxBatchCost } = dynamicBatching
  const around =
    maxBatchCost === undefined ? usualBudgets : [maxBatchCost / 2, maxBatchCost, 2 * maxBatchCost]
  return [...new Set(named ?? [...around, 0])]
}

/**
 * The same prospects with each budget, interleaved. Only a measurement with real lengths shows a budget's
 * effect, so all are expected to perform alike.
 */
export function withBudgets<Prospect extends { readonly candidate: Candidate }>(
  prospects: readonly Prospect[],
  budgets: readonly number[] = [],
): Prospect[] {
  if (budgets.length === 0) return [...prospects]
  return prospects.flatMap((prospect) => {
    const { configuration, load } = prospect.candidate
    if (configuration.maxBatchSize < 2) return [prospect]
    return budgets.map((maxBatchCost) => ({
      ...prospect,
      candidate: {
        configuration: maxBatchCost === 0 ? configuration : { ...configuration, maxBatchCost },
        load,
      },
    }))
  })
}

/** The JSON file for `engine.load()`: the model's path, and its options including the tuned ones. */
export function configJson(
  configuration: Configuration,
  { path, options }: Pick<TuneSettings, 'path' | 'options'>,
  kind: InstanceKind,
): string {
  return `${JSON.stringify({ path, ...optionsFor(configuration, options, kind) }, null, 2)}\n`
}

const kinds: Readonly<Record<string, string>> = { auto: 'KIND_AUTO', cpu: 'KIND_CPU', cuda: 'KIND_GPU' }

/**
 * The lines of a repository's `config.pbtxt` for a configuration. Inputs and outputs come from the model's
 * file.
 *
 * @returns `null` for a kind of instances that Triton does not have.
 */
export function configText(
  name: string,
  { instances, threads, maxBatchSize, maxQueueDelayMs }: Configuration,
  kind: InstanceKind,
): string | null {
  const itsKind = kinds[kind]
  if (itsKind === undefined) return null
  const lines = [
    `name: ${JSON.stringify(name)}`,
    'platform: "onnxruntime_onnx"',
    `max_batch_size: ${maxBatchSize}`,
    `instance_group [ { kind: ${itsKind}, count: ${instances} } ]`,
    ...(maxBatchSize > 1
      ? [`dynamic_batching { max_queue_delay_microseconds: ${Math.round(maxQueueDelayMs * 1000)} }`]
      : []),
    `parameters { key: "intra_op_thread_count" value { string_value: "${threads}" } }`,
  ]
  return `${lines.join('\n')}\n`
}
