import * as v from 'valibot'
import { queuePolicyEntries, type LevelOptions } from '../../options/batching.ts'
import { maxInstances } from '../../options/instance-groups.ts'
import { wholeNumber } from '../../options/options-schema.ts'
import type { ObservedBatching } from '../request-observer.ts'

const amount = v.pipe(v.number(), v.finite(), v.minValue(0))
const sizeInRows = wholeNumber(1)
const policy = v.required(v.object(queuePolicyEntries))
const schema = v.object({
  instances: wholeNumber(1, maxInstances),
  maxBatchSize: sizeInRows,
  joinRequests: v.boolean(),
  preferredBatchSizes: v.pipe(v.array(sizeInRows), v.maxLength(1000)),
  maxQueueDelayMs: amount,
  latencyTargetMs: amount,
  priorityLevels: amount,
  defaultPriorityLevel: amount,
  defaultPolicy: policy,
  policies: v.array(v.tuple([amount, policy])),
})

/** How the requests of a model became batches while they were recorded: its instances, limits and levels. Times of 0 are none. */
export type RecordedConfig = Readonly<v.InferOutput<typeof schema>>

/** Whether a value out of a file is one. */
export function isRecordedConfig(value: unknown): value is RecordedConfig {
  return v.is(schema, value) && value.preferredBatchSizes.every((size) => size <= value.maxBatchSize)
}

export function recordedConfig({
  limits,
  levels,
  latencyTargetMs,
  instances,
}: ObservedBatching): RecordedConfig {
  const { policies, ...level } = levels
  const { preferredBatchSizes, cost: _, ...limit } = limits
  return {
    instances,
    ...limit,
    preferredBatchSizes: [...preferredBatchSizes],
    latencyTargetMs,
    ...level,
    policies: [...policies],
  }
}

/** Its levels, as a queue takes them. */
export function levelsOf({
  priorityLevels,
  defaultPriorityLevel,
  defaultPolicy,
  policies,
}: RecordedConfig): LevelOptions {
  return { priorityLevels, defaultPriorityLevel, defaultPolicy, policies: new Map(policies) }
}
