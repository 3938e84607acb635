import type { ModelStatistics } from '../../observe/model-statistics.ts'
import { perVersion, perVersionBy, type MetricFamily } from './metric-family.ts'

/** Counts by Triton's reasons of failure, which are fewer than ours. */
function failures({ rejections, refusals }: ModelStatistics): Record<string, number> {
  return {
    REJECTED: rejections.queueFull + rejections.timeout + rejections.deadline + refusals.timeout + refusals.deadline,
    CANCELED: rejections.cancelled + refusals.cancelled,
    BACKEND: rejections.execution + rejections.crashed,
    OTHER:
      rejections.closed + rejections.changed + rejections.sequenceEnded + rejections.imageDecode + rejections.invalid + rejections.notReady +
      refusals.invalid + refusals.closed + refusals.notReady + refusals.sequenceEnded + refusals.leaseEnded + refusals.imageDecode + refusals.other,
  } // prettier-ignore
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
