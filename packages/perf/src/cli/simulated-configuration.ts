import { type Arrival, levelsOf, fullBatchRows, invalidArgument } from 'zerohop/internals'
import { configIn } from '../simulation/recorded-service.ts'
import type { SimulationOptions } from '../simulation/simulate.ts'
import { oneLevel } from '../simulation/simulated-request.ts'
import type { SimulateOptions } from './simulate-options.ts'
import type { KnownService } from './simulated-service.ts'

/** Fields of a simulation that a model's configuration has as well. */
export type SimulatedConfiguration = Required<
  Pick<
    SimulationOptions,
    | 'instances'
    | 'maxBatchSize'
    | 'joinRequests'
    | 'preferredBatchSizes'
    | 'maxQueueDelayMs'
    | 'latencyTargetMs'
    | 'levels'
    | 'splitOversized'
  >
>

/** What may be given of a configuration, beside what is known of the service. */
type ConfigurationOptions = Pick<
  SimulateOptions,
  'batchSize' | 'preferredBatchSizes' | 'maxQueueDelayUs' | 'latencyTargetMs' | 'priorityLevels'
>

/**
 * The configuration to simulate: what is given, and the rest as it was recorded.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for requests that are too large for it, and preferred sizes that are.
 */
export function simulatedConfiguration(
  options: ConfigurationOptions,
  recording: readonly Arrival[] | null,
  { instances, maxBatchSize }: KnownService,
): SimulatedConfiguration {
  const config = configIn(recording ?? [])
  const largest = recording?.reduce((most, { rows }) => Math.max(most, rows), 1) ?? options.batchSize
  // Only a request that was split can have more rows than its batches had.
  const splitOversized = largest > (config?.maxBatchSize ?? Infinity)
  if (largest > maxBatchSize && !splitOversized)
    throw invalidArgument(
      '--max-batch-size',
      `at least ${largest}, the rows of the largest request`,
      maxBatchSize,
    )
  const preferredBatchSizes =
    sizesOf(options.preferredBatchSizes, maxBatchSize) ??
    (config?.preferredBatchSizes ?? []).filter((size) => size <= maxBatchSize)
  const { priorityLevels } = options
  const levels = config === null ? oneLevel : levelsOf(config)
  return {
    instances,
    maxBatchSize,
    joinRequests: config?.joinRequests ?? true,
    preferredBatchSizes,
    maxQueueDelayMs:
      options.maxQueueDelayUs === undefined ? (config?.maxQueueDelayMs ?? 0) : options.maxQueueDelayUs / 1000,
    latencyTargetMs: options.latencyTargetMs ?? config?.latencyTargetMs ?? 0,
    levels:
      priorityLevels === undefined
        ? levels
        : { ...levels, priorityLevels, defaultPriorityLevel: priorityLevels },
    splitOversized,
  }
}

function sizesOf(given: readonly number[] | undefined, maxBatchSize: number): readonly number[] | undefined {
  if (given === undefined) return undefined
  const preferredBatchSizes = [...new Set(given)].sort((a, b) => a - b)
  const largest = fullBatchRows({ preferredBatchSizes, maxBatchSize })
  if (largest > maxBatchSize)
    throw invalidArgument(
      '--preferred-batch-sizes',
      `sizes of at most ${maxBatchSize}, the rows of a batch`,
      largest,
    )
  return preferredBatchSizes
}
