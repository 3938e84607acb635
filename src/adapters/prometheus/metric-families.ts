import type { StagingStats } from '../../native/staging-pool.ts'
import type {
  ModelStatistics,
  InstanceStatistics,
  StepStatistics,
  WorkerStatistics,
} from '../../observe/model-statistics.ts'
import type { RefusalReason, RejectionReason } from '../../observe/rejections.ts'
import {
  perVersion,
  perVersionBy,
  type MetricFamily,
  batchSizeSamples,
  durationSamples,
  type Sample,
} from './metric-family.ts'

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
    help: 'Number of inference requests that wait to be run, or with preserveOrdering for earlier answers',
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

/** A histogram of durations. Its sum adds up the named sums of `inferenceStats`. */
function durations(
  name: string,
  help: string,
  of: keyof ModelStatistics['latency'],
  sums: readonly (keyof ModelStatistics['inferenceStats'])[],
): MetricFamily {
  return {
    name, help, type: 'histogram',
    samples: ({ versions, durationBuckets }) => versions.flatMap(({ labels, statistics: { latency, inferenceStats } }) => {
      const ns = sums.reduce((all, sum) => all + inferenceStats[sum].ns, 0)
      return durationSamples(name, labels, durationBuckets, latency[of], ns / 1e9)
    }),
  } // prettier-ignore
}

function perInstance(read: (instance: InstanceStatistics) => number): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics: { instances } }) =>
      // Not `instance`: Prometheus uses that label for the scraped target.
      instances.map((instance) => ({
        labels: { ...labels, model_instance: instance.name, worker: instance.worker },
        value: read(instance),
      })),
    )
}

function perStep(
  samples: (step: StepStatistics) => readonly [labels: Record<string, string>, value: number][],
): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics: { steps = [] } }) =>
      steps.flatMap((step) =>
        samples(step).map(([own, value]): Sample => ({
          labels: { ...labels, step: step.step, ...own },
          value,
        })),
      ),
    )
}

const stepOutcomes = ({
  success,
  fail,
  cancelledCount,
  skippedCount,
}: StepStatistics): [Record<string, string>, number][] =>
  Object.entries({
    success: success.count,
    fail: fail.count,
    cancelled: cancelledCount,
    skipped: skippedCount,
  }).map(([outcome, count]) => [{ outcome }, count])

const ofResponseCache = (read: (cache: NonNullable<ModelStatistics['responseCache']>) => number) =>
  perVersion(({ responseCache }) => (responseCache === null ? null : read(responseCache)))
const ofArena = (read: (arena: NonNullable<ModelStatistics['arena']>) => number) =>
  perVersion(({ arena }) => (arena === null ? null : read(arena)))

/** Metrics of models that Triton does not have. */
export const modelFamilies: readonly MetricFamily[] = [
  {
    name: 'zerohop_request_rejections_total',
    help: 'Requests that were rejected, by reason',
    type: 'counter',
    samples: perVersionBy('reason', ({ rejections }) => rejections),
  },
  {
    name: 'zerohop_request_refusals_total',
    help: 'Requests that were refused before they were accepted, by reason',
    type: 'counter',
    samples: perVersionBy('reason', ({ refusals }) => refusals),
  },
  durations('zerohop_request_duration_seconds', 'Answered requests, from the call to the answer', 'total', [
    'success',
  ]),
  durations('zerohop_queue_duration_seconds', 'Waiting of answered requests', 'queue', ['queue']),
  durations(
    'zerohop_compute_duration_seconds',
    'Gathering, run and copying of the batches of answered requests',
    'compute',
    ['computeInput', 'computeInfer', 'computeOutput'],
  ),
  {
    name: 'zerohop_request_overhead_seconds_total',
    help: 'Time of answered requests in which they neither waited nor were computed',
    type: 'counter',
    samples: perVersion(({ inferenceStats }) => inferenceStats.overhead.ns / 1e9),
  },
  {
    name: 'zerohop_image_decodes_total',
    help: 'Requests whose encoded images were decoded',
    type: 'counter',
    samples: perVersion(({ inferenceStats }) => inferenceStats.imageDecode.count),
  },
  {
    name: 'zerohop_image_decode_seconds_total',
    help: 'Time in which images of requests waited for a decoder and were decoded, which is part of the time in the queue',
    type: 'counter',
    samples: perVersion(({ inferenceStats }) => inferenceStats.imageDecode.ns / 1e9),
  },
  {
    name: 'zerohop_batch_size', help: 'Rows in a batch', type: 'histogram',
    samples: ({ versions, batchSizeBuckets }) => versions.flatMap(({ labels, statistics: { batchStats } }) => batchSizeSamples('zerohop_batch_size', labels, batchSizeBuckets, batchStats)),
  }, // prettier-ignore
  {
    name: 'zerohop_batches_total',
    help: 'Runs, by the reason for which their batch was closed',
    type: 'counter',
    samples: perVersionBy('reason', ({ batchReasons }) => batchReasons),
  },
  {
    name: 'zerohop_reruns_total',
    help: 'Runs made again to find a bad request, or after a worker died',
    type: 'counter',
    samples: perVersion(({ rerunCount }) => rerunCount),
  },
  {
    name: 'zerohop_inline_runs_total',
    help: 'Runs by the thread of the application',
    type: 'counter',
    samples: perVersion(({ inlineCount }) => inlineCount),
  },
  {
    name: 'zerohop_padding_own_elements_total',
    help: 'Elements of padded inputs that requests brought',
    type: 'counter',
    samples: perVersion(({ padding }) => padding.ownElements),
  },
  {
    name: 'zerohop_padding_run_elements_total',
    help: 'Elements of padded inputs that were run',
    type: 'counter',
    samples: perVersion(({ padding }) => padding.paddedElements),
  },
  {
    name: 'zerohop_instances',
    help: 'Instances that serve',
    type: 'gauge',
    samples: perVersion(({ instanceCount }) => instanceCount),
  },
  {
    name: 'zerohop_instance_busy_seconds_total',
    help: 'Time that runs of an instance took',
    type: 'counter',
    samples: perInstance(({ busyMs }) => busyMs / 1000),
  },
  {
    name: 'zerohop_instance_runs_total',
    help: 'Runs of an instance',
    type: 'counter',
    samples: perInstance(({ runs }) => runs),
  },
  {
    name: 'zerohop_instance_rows_total',
    help: 'Rows that an instance has answered',
    type: 'counter',
    samples: perInstance(({ rows }) => rows),
  },
  {
    name: 'zerohop_coalesced_requests_total',
    help: 'Requests that joined the run of an equal one',
    type: 'counter',
    samples: ofResponseCache(({ coalesced }) => coalesced),
  },
  {
    name: 'zerohop_response_cache_evictions_total',
    help: 'Answers that were dropped to make room for others',
    type: 'counter',
    samples: ofResponseCache(({ evictions }) => evictions),
  },
  {
    name: 'zerohop_response_cache_entries',
    help: 'Answers that are kept',
    type: 'gauge',
    samples: ofResponseCache(({ entries }) => entries),
  },
  {
    name: 'zerohop_response_cache_bytes',
    help: 'What kept answers take',
    type: 'gauge',
    samples: ofResponseCache(({ bytes }) => bytes),
  },
  {
    name: 'zerohop_arena_reserved_bytes',
    help: 'Memory that arenas of ONNX Runtime hold for a model',
    type: 'gauge',
    samples: ofArena(({ totalBytes }) => totalBytes),
  },
  {
    name: 'zerohop_arena_used_bytes',
    help: 'Memory of these that is in use',
    type: 'gauge',
    samples: ofArena(({ inUseBytes }) => inUseBytes),
  },
  {
    name: 'zerohop_leases_held',
    help: 'Leases of rows that have not ended',
    type: 'gauge',
    samples: perVersion(({ leases }) => leases.held),
  },
  {
    name: 'zerohop_step_requests_total',
    help: 'Requests that came to a step of a pipeline, by what became of them there',
    type: 'counter',
    samples: perStep(stepOutcomes),
  },
  {
    name: 'zerohop_step_duration_seconds_total',
    help: 'Time of answered requests of a step of a pipeline, waiting included',
    type: 'counter',
    samples: perStep(({ success }) => [[{}, success.ns / 1e9]]),
  },
]

function perStaging(read: (staging: StagingStats) => number): MetricFamily['samples'] {
  return ({ statistics: { staging, functionStaging }, labels }) =>
    Object.entries({ models: staging, functions: functionStaging }).flatMap(([pool, stats]): Sample[] =>
      stats === null ? [] : [{ labels: { ...labels, pool, kind: stats.kind }, value: read(stats) }],
    )
}

function perWorker(read: (worker: WorkerStatistics) => number): MetricFamily['samples'] {
  return ({ statistics: { workers }, labels }) =>
    workers.map((each) => ({ labels: { ...labels, worker: each.worker }, value: read(each) }))
}

const loopDelay = 'zerohop_event_loop_delay_seconds'

/** Metrics of the engine itself. */
export const engineFamilies: readonly MetricFamily[] = [
  {
    name: 'zerohop_staging_used_bytes',
    help: 'Staging memory in use',
    type: 'gauge',
    samples: perStaging(({ usedBytes }) => usedBytes),
  },
  {
    name: 'zerohop_staging_high_water_bytes',
    help: 'Most staging memory that was in use',
    type: 'gauge',
    samples: perStaging(({ highWaterBytes }) => highWaterBytes),
  },
  {
    name: 'zerohop_staging_reserved_bytes',
    help: 'Staging memory that is taken from the system',
    type: 'gauge',
    samples: perStaging(({ reservedBytes }) => reservedBytes),
  },
  {
    name: 'zerohop_staging_limit_bytes',
    help: 'Limit of staging memory',
    type: 'gauge',
    samples: perStaging(({ limitBytes }) => limitBytes),
  },
  {
    name: 'zerohop_staging_fallbacks_total',
    help: 'Slots that got a lesser kind of memory, or memory past the limit',
    type: 'counter',
    samples: perStaging(({ fallbacks }) => fallbacks),
  },
  {
    name: 'zerohop_worker_restarts_total',
    help: 'Threads that took the place of one that had died',
    type: 'counter',
    samples: perWorker(({ restarts }) => restarts),
  },
  {
    name: 'zerohop_worker_busy_ratio',
    help: 'The part of the last seconds in which a worker ran something',
    type: 'gauge',
    aggregator: 'average',
    samples: perWorker(({ busyShare }) => busyShare),
  },
  {
    name: loopDelay, help: 'By how much timers of the thread of the application were late while requests were in flight', type: 'histogram',
    samples: ({ statistics: { eventLoopDelay }, labels, durationBuckets }) => durationSamples(loopDelay, labels, durationBuckets, eventLoopDelay, eventLoopDelay.sumMs / 1000),
  }, // prettier-ignore
]
