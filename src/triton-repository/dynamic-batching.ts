import type { DynamicBatchingConfig, QueuePolicy } from '../config/batching-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { defined } from './defined.ts'

/**
 * Reads `dynamic_batching`. Without it requests are joined all the same where the model allows it, as in a Triton that
 * completes configurations.
 */
export function readDynamicBatching(config: ConfigFields): DynamicBatchingConfig | undefined {
  const batching = config.message('dynamic_batching')
  if (batching === undefined) return undefined
  const preferred = batching.integers('preferred_batch_size', 1)
  const policy = batching.message('default_queue_policy')
  const policies = batching.messageMap('priority_queue_policy')
  const read = defined({
    preferredBatchSize: preferred.length === 0 ? undefined : preferred,
    maxQueueDelayMs: milliseconds(batching.integer('max_queue_delay_microseconds', 0)),
    preserveOrdering: batching.boolean('preserve_ordering') || undefined,
    priorityLevels: batching.unsigned64('priority_levels') || undefined,
    defaultPriorityLevel: batching.unsigned64('default_priority_level') || undefined,
    defaultQueuePolicy: policy && readQueuePolicy(policy),
    priorityQueuePolicy:
      policies.length === 0 ? undefined : Object.fromEntries(policies.map(([level, each]) => [level, each ? readQueuePolicy(each) : {}])),
  })
  batching.finish()
  return read
}

function readQueuePolicy(policy: ConfigFields): QueuePolicy {
  const read = defined({
    timeoutAction: policy.enumerator('timeout_action', ['REJECT', 'DELAY']),
    defaultTimeoutMs: milliseconds(policy.integer('default_timeout_microseconds', 0)),
    allowTimeoutOverride: policy.boolean('allow_timeout_override'),
    maxQueueSize: policy.integer('max_queue_size', 0),
  })
  policy.finish()
  return read
}

function milliseconds(microseconds: number | undefined): number | undefined {
  return microseconds === undefined ? undefined : microseconds / 1000
}
