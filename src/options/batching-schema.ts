import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { costEntries } from './batch-cost.ts'
import { maxPriorityLevel, type LevelOptions, type LevelPolicy } from './batching.ts'
import { optionsOf, properties } from './options-schema.ts'
import { wholeNumber } from './whole-number.ts'

const duration = v.pipe(
  v.number(),
  v.check((ms) => ms >= 0 && ms < 2 ** 31, 'milliseconds, at least 0 and less than 2^31'),
)

const queuePolicySchema = optionsOf({
  timeoutAction: v.optional(v.picklist(['REJECT', 'DELAY']), 'REJECT'),
  defaultTimeoutMs: v.optional(duration, 0),
  allowTimeoutOverride: v.optional(v.boolean(), false),
  maxQueueSize: v.optional(wholeNumber(0), 0),
})

/** Schema of `dynamicBatching`. */
export const schedulingSchema = optionsOf({
  preferredBatchSize: v.optional(v.union([wholeNumber(1), v.pipe(v.array(wholeNumber(1)), v.minLength(1))])),
  maxQueueDelayMs: v.optional(duration, 0),
  ...costEntries,
  preserveOrdering: v.optional(v.boolean(), false),
  priorityLevels: v.optional(wholeNumber(0, maxPriorityLevel), 0),
  defaultPriorityLevel: v.optional(wholeNumber(0, maxPriorityLevel)),
  defaultQueuePolicy: v.optional(queuePolicySchema, {}),
  priorityQueuePolicy: v.optional(v.pipe(properties, v.record(v.string(), queuePolicySchema)), {}),
  holdUntilQueued: v.optional(wholeNumber(0), 0),
})

/** `dynamicBatching` as its schema gives it. */
export type Scheduling = v.InferOutput<typeof schedulingSchema>

const noPolicy: LevelPolicy = {
  timeoutAction: 'REJECT',
  defaultTimeoutMs: 0,
  allowTimeoutOverride: false,
  maxQueueSize: 0,
}

/** Priority levels and their policies; `null` for a model whose requests are not joined. */
export function resolveLevels(batching: Scheduling | null): LevelOptions {
  if (batching === null)
    return { priorityLevels: 0, defaultPriorityLevel: 0, defaultPolicy: noPolicy, policies: new Map() }
  const {
    priorityLevels,
    defaultPriorityLevel = priorityLevels,
    defaultQueuePolicy,
    priorityQueuePolicy,
  } = batching
  const policies = new Map(
    Object.entries(priorityQueuePolicy).map(([level, policy]) => [Number(level), policy]),
  )
  return { priorityLevels, defaultPriorityLevel, defaultPolicy: defaultQueuePolicy, policies }
}

/**
 * Checks the scheduling options against each other, by Triton's rules.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkScheduling(model: string, batching: Scheduling | null): void {
  if (batching === null) return
  const { priorityLevels, defaultPriorityLevel, preserveOrdering, defaultQueuePolicy, priorityQueuePolicy } =
    batching
  const wrong = (option: string, expected: string, received: unknown) =>
    invalidArgument(`dynamicBatching.${option}`, expected, received, { code: 'ERR_MODEL_CONFIG', model })

  const inRange = (level: number) => Number.isInteger(level) && level >= 1 && level <= priorityLevels
  const range =
    priorityLevels === 0
      ? 'nothing without priorityLevels'
      : `a level from 1 to ${priorityLevels} (priorityLevels)`
  if (
    defaultPriorityLevel !== undefined &&
    !inRange(defaultPriorityLevel) &&
    (priorityLevels > 0 || defaultPriorityLevel > 0)
  ) {
    throw wrong('defaultPriorityLevel', range, defaultPriorityLevel)
  }
  const strange = Object.keys(priorityQueuePolicy).find((level) => !inRange(Number(level)))
  if (strange !== undefined) throw wrong('priorityQueuePolicy', range, strange)
  if (!preserveOrdering) return
  if (priorityLevels > 1)
    throw wrong('preserveOrdering', 'at most one priority level with it', priorityLevels)
  const policies = [defaultQueuePolicy, ...Object.values(priorityQueuePolicy)]
  if (
    policies.some(({ timeoutAction, defaultTimeoutMs }) => timeoutAction === 'DELAY' && defaultTimeoutMs > 0)
  ) {
    throw wrong('preserveOrdering', "no timeout with timeoutAction 'DELAY'", 'DELAY')
  }
}
