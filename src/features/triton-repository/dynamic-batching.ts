import type { DynamicBatchingConfig, QueuePolicy } from '../../options/batching-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { defined } from './defined.ts'

/**
 * Reads `dynamic_batching`. Without it requests are joined all the same where the model allows it, as in a Triton that
 * completes configurations.
 *
 * @param maxBatchSize `undefined` where it is to be found from the model.
 */
export function readDynamicBatching(
  config: ConfigFields,
  maxBatchSize: number | undefined,
): DynamicBatchingConfig | undefined {
  const batching = config.message('dynamic_batching')
  if (batching === undefined) return undefined
  const preferred = batching.integers('preferred_batch_size', 1)
  const policy = batching.message('default_queue_policy')
  const read = defined({
    preferredBatchSize: preferred.length === 0 ? undefined : preferred,
    maxQueueDelayMs: readDelay(batching, maxBatchSize),
    preserveOrdering: batching.boolean('preserve_ordering') || undefined,
    ...readPriorities(batching),
    defaultQueuePolicy: policy && readQueuePolicy(policy),
  })
  batching.finish()
  return read
}

/** Waits for others only where there may be others in a batch. */
export function readDelay(batching: ConfigFields, maxBatchSize: number | undefined): number | undefined {
  const delayMs = milliseconds(batching, 'max_queue_delay_microseconds')
  if (maxBatchSize !== 0 || !delayMs) return delayMs
  batching.note(
    'max_queue_delay_microseconds',
    'requests are not joined while max_batch_size is 0, so that none waits for another',
  )
  return undefined
}

function readPriorities(
  batching: ConfigFields,
): Pick<DynamicBatchingConfig, 'priorityLevels' | 'defaultPriorityLevel' | 'priorityQueuePolicy'> {
  const priorityLevels = batching.integer('priority_levels') || undefined
  const defaultPriorityLevel = batching.integer('default_priority_level') || undefined
  const policies = batching
    .messageMap<number>('priority_queue_policy')
    .map(([level, policy]) => [level, readQueuePolicy(policy)] as const)
  if (priorityLevels === undefined) {
    const needless = (['default_priority_level', 'priority_queue_policy'] as const).filter((name) =>
      batching.has(name),
    )
    for (const name of needless) batching.note(name, 'without priority_levels there is one level')
    return {}
  }
  if (defaultPriorityLevel === undefined || defaultPriorityLevel > priorityLevels) {
    batching.fail(
      'default_priority_level',
      `a level from 1 to ${priorityLevels} (priority_levels)`,
      defaultPriorityLevel,
    )
  }
  const strange = policies.find(([level]) => level < 1 || level > priorityLevels)
  if (strange !== undefined)
    batching.fail('priority_queue_policy', `levels from 1 to ${priorityLevels} (priority_levels)`, strange[0])
  return {
    priorityLevels,
    defaultPriorityLevel,
    ...(policies.length === 0 ? {} : { priorityQueuePolicy: Object.fromEntries(policies) }),
  }
}

function readQueuePolicy(policy: ConfigFields): QueuePolicy {
  const read = defined({
    timeoutAction: policy.enumerator<'REJECT' | 'DELAY'>('timeout_action'),
    defaultTimeoutMs: milliseconds(policy, 'default_timeout_microseconds'),
    allowTimeoutOverride: policy.boolean('allow_timeout_override'),
    maxQueueSize: policy.integer('max_queue_size'),
  })
  policy.finish()
  return read
}

/** No timer is longer; some 24 days. */
const longestMicroseconds = (2 ** 31 - 1) * 1000

/** A field of microseconds, in milliseconds. */
function milliseconds(fields: ConfigFields, name: string): number | undefined {
  const microseconds = fields.integer(name, 0, longestMicroseconds)
  return microseconds === undefined ? undefined : microseconds / 1000
}
