import type { InferenceErrorCode } from '../errors.ts'
import type { RejectionReason } from '../observability/model-stats.ts'

/** What an error is counted as; each is the run's or the input's, as a run has no limits but those of all its callers. */
export const rejectionCauses: Partial<Record<InferenceErrorCode, RejectionReason>> = {
  ERR_QUEUE_FULL: 'queueFull',
  ERR_TIMEOUT: 'timeout',
  ERR_DEADLINE: 'deadline',
  ERR_CLOSED: 'closed',
  ERR_INSTANCE_CRASHED: 'crashed',
  ERR_INVALID_ARG: 'changed',
}
