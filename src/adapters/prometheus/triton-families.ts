import type { ModelStatistics } from '../../observe/model-statistics.ts'
import type { RefusalReason, RejectionReason } from '../../observe/rejections.ts'
import { perVersion, perVersionBy, type MetricFamily } from './metric-family.ts'

type Failure = 'REJECTED' | 'CANCELED' | 'BACKEND' | 'OTHER'

/** Triton's reasons of failure, which are fewer than ours. */
const failureOf: Readonly<Record<RejectionReason | RefusalReason, Failure>> = {
  queueFull: 'REJECTED',
  timeout: 'REJECTED',
  deadline: 'REJECTED',
  cancelled: 'CANCELED',
  execution: 'BACKEND',
  crashed: 'BACKEND',
  closed: 'OTHER',
  changed: 'OTHER',
  sequenceEnded: 'OTHER',
  imageDecode: 'OTHER',
  invalid: 'OTHER',
  notReady: 'OTHER',
  leaseEnded: 'OTHER',
  other: 'OTHER',
}

function failures({ rejections, refusals }: ModelStatistics): Readonly<Record<Failure, number>> {
  const counts = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 }
  for (const [reason, count] of [...Object.entries(rejections), ...Object.entries(refusals)])
    counts[failureOf[reason as RejectionReason | RefusalReason]] += count
  return counts
}

type Sum = keyof ModelStatistics['inferenceStats']

/** A metric of a sum of durations, in microseconds. */
const duration = (name: string, help: string, sum: Sum): MetricFamily => ({
  name, help: `Cumulative ${help} in microseconds`, type: 'counter', samples: perVersion(({ inferenceStats }) => inferenceStats[sum].ns / 1000),
}) // prettier-ignore

const ofCache = (read: (statistics: ModelStatistics) => number) =>
  perVersion((statistics) => (statistics.responseCache === null ? null : read(statistics)))

/** Metrics with the names and meanings of Triton's, so that dashboards for Triton keep working. */
export const tritonFamilies: readonly MetricFamily[] = [
  {
    name: 'nv_inference_request_success',
    help: 'Number of successful inference requests',
    type: 'counter',
    samples: perVersion(({ inferenceStats }) => inferenceStats.success.count),
  },
  {
    name: 'nv_inference_request_failure',
    help: 'Number of failed inference requests, by reason',
    type: 'counter',
    samples: perVersionBy('reason', failures),
  },
  {
    name: 'nv_inference_count',
    help: 'Number of inferences performed: rows',
    type: 'counter',
    samples: perVersion(({ inferenceCount }) => inferenceCount),
  },
  {
    name: 'nv_inference_exec_count',
    help: 'Number of model executions performed: batches',
    type: 'counter',
    samples: perVersion(({ executionCount }) => executionCount),
  },
  duration('nv_inference_request_duration_us', 'duration of successful inference requests', 'success'),
  duration('nv_inference_queue_duration_us', 'duration of waiting of successful inference requests', 'queue'),
  duration('nv_inference_compute_input_duration_us', 'duration of gathering inputs', 'computeInput'),
  duration('nv_inference_compute_infer_duration_us', 'duration of running the model', 'computeInfer'),
  duration('nv_inference_compute_output_duration_us', 'duration of copying outputs', 'computeOutput'),
  {
    name: 'nv_inference_pending_request_count',
    help: 'Number of inference requests that wait to be run',
    type: 'gauge',
    samples: perVersion(({ pendingRequestCount }) => pendingRequestCount),
  },
  {
    name: 'nv_model_load_duration_secs',
    help: 'Time that loading the model took, in seconds',
    type: 'gauge',
    aggregator: 'max',
    samples: perVersion(({ loadMs }) => loadMs / 1000),
  },
  {
    name: 'nv_cache_num_hits_per_model',
    help: 'Number of response cache hits',
    type: 'counter',
    samples: ofCache(({ inferenceStats }) => inferenceStats.cacheHit.count),
  },
  {
    name: 'nv_cache_num_misses_per_model',
    help: 'Number of response cache misses',
    type: 'counter',
    samples: ofCache(({ inferenceStats }) => inferenceStats.cacheMiss.count),
  },
  {
    name: 'nv_cache_hit_duration_per_model',
    help: 'Cumulative duration of response cache hits in microseconds',
    type: 'counter',
    samples: ofCache(({ inferenceStats }) => inferenceStats.cacheHit.ns / 1000),
  },
  {
    name: 'nv_cache_miss_duration_per_model',
    help: 'Cumulative duration of response cache misses in microseconds',
    type: 'counter',
    samples: ofCache(({ inferenceStats }) => inferenceStats.cacheMiss.ns / 1000),
  },
  {
    name: 'nv_pinned_memory_pool_total_bytes', help: 'Size of the pool of page-locked memory in bytes', type: 'gauge',
    samples: ({ statistics: { staging }, labels }) => (staging?.kind === 'pinned' ? [{ labels, value: staging.limitBytes }] : []),
  }, // prettier-ignore
  {
    name: 'nv_pinned_memory_pool_used_bytes', help: 'Page-locked memory in use in bytes', type: 'gauge',
    samples: ({ statistics: { staging }, labels }) => (staging?.kind === 'pinned' ? [{ labels, value: staging.usedBytes }] : []),
  }, // prettier-ignore
]
