import type { DynamicBatchingConfig, QueuePolicy } from '../model/config.ts'
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
  const read = defined({
    preferredBatchSize: preferred.length === 0 ? undefined : preferred,
    maxQueueDelayMs: milliseconds(batching.integer('max_queue_delay_microseconds', 0)),
    defaultQueuePolicy: readQueuePolicy(batching),
  })
  const noPriorities = 'Requests of a model are served in the order in which they arrive'
  batching.finish({
    refused: {
      preserve_ordering: 'Batches of several instances settle as each of them finishes',
      priority_levels: noPriorities,
      default_priority_level: noPriorities,
      priority_queue_policy: noPriorities,
    },
  })
  return read
}

function readQueuePolicy(batching: ConfigFields): QueuePolicy | undefined {
  const policy = batching.message('default_queue_policy')
  if (policy === undefined) return undefined
  const action = policy.enumerator('timeout_action', ['REJECT', 'DELAY'])
  if (action === 'DELAY') policy.fail('timeout_action', 'REJECT', action, 'A request whose time is up is rejected')
  const read = defined({
    maxQueueSize: policy.integer('max_queue_size', 0),
    defaultTimeoutMs: milliseconds(policy.integer('default_timeout_microseconds', 0)),
  })
  policy.finish({ noted: { allow_timeout_override: 'the timeoutMs of a request always replaces the default' } })
  return read
}

function milliseconds(microseconds: number | undefined): number | undefined {
  return microseconds === undefined ? undefined : microseconds / 1000
}
