import type { InstanceKind, DynamicBatchingConfig, ModelOptions } from 'zerohop'

/** What the tuner varies of a model's options; the others stay as they are. */
export interface Configuration {
  readonly instances: number
  /** Intra-op threads of each session. */
  readonly threads: number
  /** Most rows in one run; 0 for a model whose requests are not joined. */
  readonly maxBatchSize: number
  readonly maxQueueDelayMs: number
  /** Most that a batch may cost; left out for no limit. */
  readonly maxBatchCost?: number
}

/** How requests are sent: so many callers that each wait for their answer, or so many requests a second whatever becomes of them. */
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
export function configurationKey({
  instances,
  threads,
  maxBatchSize,
  maxQueueDelayMs,
  maxBatchCost,
}: Configuration): string {
  return `i${instances} t${threads} b${maxBatchSize} d${maxQueueDelayMs}${maxBatchCost === undefined ? '' : ` c${maxBatchCost}`}`
}

/** The options that `engine.load()` takes for a configuration, on top of what was given. */
export function optionsFor(
  { instances, threads, maxBatchSize, maxQueueDelayMs, maxBatchCost }: Configuration,
  given: ModelOptions,
  kind: InstanceKind,
): ModelOptions {
  const { dynamicBatching, ...others } = given
  const {
    maxBatchCost: _,
    overCostAction,
    ...kept
  }: DynamicBatchingConfig = dynamicBatching === undefined || dynamicBatching === false ? {} : dynamicBatching
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

/** The same for a measurement, of a configuration or of what the model has by default: answers are kept for no one, as the same is asked again and again. */
export function measuredOptions(
  configuration: Configuration | null,
  options: ModelOptions,
  kind: InstanceKind,
): ModelOptions {
  const { responseCache: _, coalesce: __, ...given } = options
  if (configuration !== null) return optionsFor(configuration, given, kind)
  return kind === 'auto' ? given : { ...given, instanceGroup: [{ kind }] }
}
