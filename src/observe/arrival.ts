import * as v from 'valibot'
import { queuePolicyEntries, type BatchReason, type LevelOptions } from '../options/batching.ts'
import { maxInstances } from '../options/instance-groups.ts'
import { wholeNumber } from '../options/options-schema.ts'
import type { ObservedBatching } from './request-observer.ts'

/**
 * One request of a recording, as it came: a line of JSON each in a file, in the order of `atUs`. Only `atUs` and `rows` are
 * always there.
 */
export interface Arrival {
  /** Since the first request, in microseconds. */
  readonly atUs: number
  readonly rows: number
  readonly model?: string
  /** Dims of inputs that are not fixed by the model, by name, as they were given: with the rows, where the model has a batch dimension. */
  readonly dims?: Readonly<Record<string, readonly number[]>>
  /** As in `infer()`. */
  readonly priority?: number
  readonly timeoutMs?: number
  readonly deadlineMs?: number
  /** The sequence that it belongs to, if any. */
  readonly sequenceId?: number | string
  /** How long it took from `infer()` to its answer, in microseconds; left out of one that was not answered. */
  readonly latencyUs?: number
  /** Since an answer on which it was made: by a caller who had waited for that. Left out of others. */
  readonly afterAnswerUs?: number
  /** Since it came, in microseconds, when its encoded images were decoded; left out of one that had none. */
  readonly decodedUs?: number
  /** Since it came, in microseconds, when its caller withdrew it. */
  readonly cancelledUs?: number
  /** Whether its answer is that of another: out of the response cache, or of a run that was in flight. */
  readonly shared?: boolean
  /** The runs of the batches that it was the first of: one, or several of a request that was split. */
  readonly runs?: readonly ArrivalRun[]
  /** Of the first request to a model: how it is configured. */
  readonly config?: RecordedConfig
}

/** A run, with what was to be done for it before and after, in microseconds. */
export interface ArrivalRun {
  /** When its batch was closed, since the first request of the recording. */
  readonly takenAtUs: number
  readonly rows: number
  readonly requests: number
  readonly instance: string
  /** Gathering its rows, on the application's thread. */
  readonly gatherUs: number
  /** From there until its worker began with it: also while another ran before it. */
  readonly handOverUs: number
  /** What its worker was busy with it. */
  readonly runUs: number
  /** From there until the application's thread came to its outputs. */
  readonly wakeUs: number
  /** Handing its outputs out. */
  readonly scatterUs: number
  /** Whether the application's thread ran it, there and then. */
  readonly inline?: boolean
  /** Why its batch was closed. */
  readonly reason?: BatchReason
}

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
