import type { EngineStatistics } from '../../engine/engine-resources.ts'
import type { StagingStats } from '../../native/staging-pool.ts'
import type {
  BatchStatistics,
  InstanceStatistics,
  LatencyDistribution,
  ModelStatistics,
  StepStatistics,
  WorkerStatistics,
} from '../../observe/model-statistics.ts'
import type { RefusalReason, RejectionReason } from '../../observe/rejections.ts'

export type Labels = Readonly<Record<string, string>>

/** One value of a metric. */
export interface Sample {
  /** If it differs from the metric's name: `..._bucket`, `..._sum` and `..._count` of a histogram. */
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/** The statistics of an engine, and how to present them. */
export interface Scraped {
  readonly statistics: EngineStatistics
  /** Labels of the engine. */
  readonly labels: Labels
  /** All versions that are not released. Their labels include the engine's. */
  readonly versions: readonly { readonly labels: Labels; readonly statistics: ModelStatistics }[]
  /** Upper bounds of the histograms, in seconds and in rows. */
  readonly durationBuckets: readonly number[]
  readonly batchSizeBuckets: readonly number[]
}

/** A metric: its name, help text and values. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** How to combine the values of a cluster's processes. Default: the sum. */
  readonly aggregator?: 'average' | 'max'
  samples(scraped: Scraped): Sample[]
}

type Failure = 'REJECTED' | 'CANCELED' | 'BACKEND' | 'OTHER'

/** Triton's reasons of failure, which are fewer than ours. */
const tritonReasons: Readonly<Record<RejectionReason | RefusalReason, Failure>> = {
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
    counts[tritonReasons[reason as RejectionReason | RefusalReason]] += count
  return counts
}

const ofType =
  (type: MetricFamily['type']) =>
  (name: string, help: string, samples: MetricFamily['samples']): MetricFamily => ({
    name,
    help,
    type,
    samples,
  })
const counter = ofType('counter')
const gauge = ofType('gauge')
const histogram = ofType('histogram')

/** One value per version; none if `read` returns none. */
function perVersion(read: (of: ModelStatistics) => number | null | undefined): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics }) => {
      const value = read(statistics) ?? null
      return value === null ? [] : [{ labels, value }]
    })
}

/** A sum of durations, in microseconds. */
const microseconds = (sum: keyof ModelStatistics['inferenceStats']) =>
  perVersion((of) => of.inferenceStats[sum].ns / 1000)

/** Only of models with a response cache. */
const ofCache = (read: (of: ModelStatistics) => number) =>
  perVersion((of) => (of.responseCache === null ? null : read(of)))

/** Several values per version, told apart by the label `reason`. */
function perReason(read: (of: ModelStatistics) => Readonly<Record<string, number>>): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics }) =>
      Object.entries(read(statistics)).map(([reason, value]) => ({ labels: { ...labels, reason }, value })),
    )
}

/** A histogram of durations. Its sum adds up the named sums of `inferenceStats`. */
function durations(
  name: string,
  help: string,
  of: keyof ModelStatistics['latency'],
  sums: readonly (keyof ModelStatistics['inferenceStats'])[],
): MetricFamily {
  return histogram(name, help, ({ versions, durationBuckets }) =>
    versions.flatMap(({ labels, statistics: { latency, inferenceStats } }) => {
      const ns = sums.reduce((all, sum) => all + inferenceStats[sum].ns, 0)
      return durationSamples(name, labels, durationBuckets, latency[of], ns / 1e9)
    }),
  )
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
  samples: (step: StepStatistics) => readonly Pick<Sample, 'labels' | 'value'>[],
): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics: { steps = [] } }) =>
      steps.flatMap((step) =>
        samples(step).map(({ labels: own, value }) => ({
          labels: { ...labels, step: step.step, ...own },
          value,
        })),
      ),
    )
}

function stepOutcomes({ success, fail, cancelledCount, skippedCount }: StepStatistics) {
  const counts = {
    success: success.count,
    fail: fail.count,
    cancelled: cancelledCount,
    skipped: skippedCount,
  }
  return Object.entries(counts).map(([outcome, value]) => ({ labels: { outcome }, value }))
}

function perStaging(read: (staging: StagingStats) => number): MetricFamily['samples'] {
  return ({ statistics: { staging, functionStaging }, labels }) =>
    Object.entries({ models: staging, functions: functionStaging }).flatMap(([pool, stats]): Sample[] =>
      stats === null ? [] : [{ labels: { ...labels, pool, kind: stats.kind }, value: read(stats) }],
    )
}

const ofPinned =
  (read: (staging: StagingStats) => number): MetricFamily['samples'] =>
  ({ statistics: { staging }, labels }) =>
    staging?.kind === 'pinned' ? [{ labels, value: read(staging) }] : []

function perWorker(read: (worker: WorkerStatistics) => number): MetricFamily['samples'] {
  return ({ statistics: { workers }, labels }) =>
    workers.map((each) => ({ labels: { ...labels, worker: each.worker }, value: read(each) }))
}

/** In the order in which a scrape gives them. */
// prettier-ignore
export const metricFamilies: readonly MetricFamily[] = [
  // With the names and meanings of Triton's, so that dashboards for Triton keep working.
  counter('nv_inference_request_success', 'Number of successful inference requests', perVersion((of) => of.inferenceStats.success.count)),
  counter('nv_inference_request_failure', 'Number of failed inference requests, by reason', perReason(failures)),
  counter('nv_inference_count', 'Number of inferences performed: rows', perVersion((of) => of.inferenceCount)),
  counter('nv_inference_exec_count', 'Number of model executions performed: batches', perVersion((of) => of.executionCount)),
  counter('nv_inference_request_duration_us', 'Cumulative duration of successful inference requests in microseconds', microseconds('success')),
  counter('nv_inference_queue_duration_us', 'Cumulative duration of waiting of successful inference requests in microseconds', microseconds('queue')),
  counter('nv_inference_compute_input_duration_us', 'Cumulative duration of gathering inputs in microseconds', microseconds('computeInput')),
  counter('nv_inference_compute_infer_duration_us', 'Cumulative duration of running the model in microseconds', microseconds('computeInfer')),
  counter('nv_inference_compute_output_duration_us', 'Cumulative duration of copying outputs in microseconds', microseconds('computeOutput')),
  gauge('nv_inference_pending_request_count', 'Number of inference requests that wait to be run, or with preserveOrdering for earlier answers', perVersion((of) => of.pendingRequestCount)),
  { ...gauge('nv_model_load_duration_secs', 'Time that loading the model took, in seconds', perVersion((of) => of.loadMs / 1000)), aggregator: 'max' },
  counter('nv_cache_num_hits_per_model', 'Number of response cache hits', ofCache((of) => of.inferenceStats.cacheHit.count)),
  counter('nv_cache_num_misses_per_model', 'Number of response cache misses', ofCache((of) => of.inferenceStats.cacheMiss.count)),
  counter('nv_cache_hit_duration_per_model', 'Cumulative duration of response cache hits in microseconds', ofCache((of) => of.inferenceStats.cacheHit.ns / 1000)),
  counter('nv_cache_miss_duration_per_model', 'Cumulative duration of response cache misses in microseconds', ofCache((of) => of.inferenceStats.cacheMiss.ns / 1000)),
  gauge('nv_pinned_memory_pool_total_bytes', 'Size of the pool of page-locked memory in bytes', ofPinned((of) => of.limitBytes)),
  gauge('nv_pinned_memory_pool_used_bytes', 'Page-locked memory in use in bytes', ofPinned((of) => of.usedBytes)),

  // Of models, which Triton does not have.
  counter('zerohop_request_rejections_total', 'Requests that were rejected, by reason', perReason((of) => of.rejections)),
  counter('zerohop_request_refusals_total', 'Requests that were refused before they were accepted, by reason', perReason((of) => of.refusals)),
  durations('zerohop_request_duration_seconds', 'Answered requests, from the call to the answer', 'total', ['success']),
  durations('zerohop_queue_duration_seconds', 'Waiting of answered requests', 'queue', ['queue']),
  durations('zerohop_compute_duration_seconds', 'Gathering, run and copying of the batches of answered requests', 'compute', ['computeInput', 'computeInfer', 'computeOutput']),
  counter('zerohop_request_overhead_seconds_total', 'Time of answered requests in which they neither waited nor were computed', perVersion((of) => of.inferenceStats.overhead.ns / 1e9)),
  counter('zerohop_image_decodes_total', 'Requests whose encoded images were decoded', perVersion((of) => of.inferenceStats.imageDecode.count)),
  counter('zerohop_image_decode_seconds_total', 'Time in which images of requests waited for a decoder and were decoded, which is part of the time in the queue', perVersion((of) => of.inferenceStats.imageDecode.ns / 1e9)),
  histogram('zerohop_batch_size', 'Rows in a batch', ({ versions, batchSizeBuckets }) => versions.flatMap((of) => batchSizeSamples('zerohop_batch_size', of.labels, batchSizeBuckets, of.statistics.batchStats))),
  counter('zerohop_batches_total', 'Runs, by the reason for which their batch was closed', perReason((of) => of.batchReasons)),
  counter('zerohop_reruns_total', 'Runs made again to find a bad request, or after a worker died', perVersion((of) => of.rerunCount)),
  counter('zerohop_inline_runs_total', 'Runs by the thread of the application', perVersion((of) => of.inlineCount)),
  counter('zerohop_padding_own_elements_total', 'Elements of padded inputs that requests brought', perVersion((of) => of.padding.ownElements)),
  counter('zerohop_padding_run_elements_total', 'Elements of padded inputs that were run', perVersion((of) => of.padding.paddedElements)),
  gauge('zerohop_instances', 'Instances that serve', perVersion((of) => of.instanceCount)),
  counter('zerohop_instance_busy_seconds_total', 'Time that runs of an instance took', perInstance((of) => of.busyMs / 1000)),
  counter('zerohop_instance_runs_total', 'Runs of an instance', perInstance((of) => of.runs)),
  counter('zerohop_instance_rows_total', 'Rows that an instance has answered', perInstance((of) => of.rows)),
  counter('zerohop_coalesced_requests_total', 'Requests that joined the run of an equal one', perVersion((of) => of.responseCache?.coalesced)),
  counter('zerohop_response_cache_evictions_total', 'Answers that were dropped to make room for others', perVersion((of) => of.responseCache?.evictions)),
  gauge('zerohop_response_cache_entries', 'Answers that are kept', perVersion((of) => of.responseCache?.entries)),
  gauge('zerohop_response_cache_bytes', 'What kept answers take', perVersion((of) => of.responseCache?.bytes)),
  gauge('zerohop_arena_reserved_bytes', 'Memory that arenas of ONNX Runtime hold for a model', perVersion((of) => of.arena?.totalBytes)),
  gauge('zerohop_arena_used_bytes', 'Memory of these that is in use', perVersion((of) => of.arena?.inUseBytes)),
  gauge('zerohop_leases_held', 'Leases of rows that have not ended', perVersion((of) => of.leases.held)),
  counter('zerohop_step_requests_total', 'Requests that came to a step of a pipeline, by what became of them there', perStep(stepOutcomes)),
  counter('zerohop_step_duration_seconds_total', 'Time of answered requests of a step of a pipeline, waiting included', perStep((of) => [{ labels: {}, value: of.success.ns / 1e9 }])),

  // Of the engine itself.
  gauge('zerohop_staging_used_bytes', 'Staging memory in use', perStaging((of) => of.usedBytes)),
  gauge('zerohop_staging_high_water_bytes', 'Most staging memory that was in use', perStaging((of) => of.highWaterBytes)),
  gauge('zerohop_staging_reserved_bytes', 'Staging memory that is taken from the system', perStaging((of) => of.reservedBytes)),
  gauge('zerohop_staging_limit_bytes', 'Limit of staging memory', perStaging((of) => of.limitBytes)),
  counter('zerohop_staging_fallbacks_total', 'Slots that got a lesser kind of memory, or memory past the limit', perStaging((of) => of.fallbacks)),
  counter('zerohop_worker_restarts_total', 'Threads that took the place of one that had died', perWorker((of) => of.restarts)),
  { ...gauge('zerohop_worker_busy_ratio', 'The part of the last seconds in which a worker ran something', perWorker((of) => of.busyShare)), aggregator: 'average' },
  histogram('zerohop_event_loop_delay_seconds', 'By how much timers of the thread of the application were late while requests were in flight', ({ statistics: { eventLoopDelay }, labels, durationBuckets }) =>
    durationSamples('zerohop_event_loop_delay_seconds', labels, durationBuckets, eventLoopDelay, eventLoopDelay.sumMs / 1000)),
]

/** A count between one bound and the next, ascending. */
interface Counted {
  readonly upTo: number
  readonly count: number
}

/**
 * How far an engine bucket of durations may reach beyond a bound inside it, as a factor: half of the bucket's
 * width.
 */
const half = 1.008

/**
 * The samples of a histogram. A count belongs to the first bound that is not below it.
 *
 * @param reach how far an engine bucket may reach beyond a bound, as a factor.
 */
function histogramSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  counted: readonly Counted[],
  sum: number,
  reach = 1,
): Sample[] {
  const samples: Sample[] = []
  let at = 0
  let count = 0
  for (const bound of bounds) {
    for (; at < counted.length && counted[at]!.upTo <= bound * reach; at++) count += counted[at]!.count
    samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le: bound }, value: count })
  }
  const total = counted.reduce((all, each) => all + each.count, 0)
  samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total })
  samples.push(
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  )
  return samples
}

/**
 * Samples of durations, in seconds. A bound inside an engine bucket is off by at most half of its width, 0.8
 * %.
 */
export function durationSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  { buckets }: LatencyDistribution,
  sumSeconds: number,
): Sample[] {
  return histogramSamples(
    name,
    labels,
    bounds,
    buckets.map(({ upToMs, count }) => ({ upTo: upToMs / 1000, count })),
    sumSeconds,
    half,
  )
}

/** Samples of the rows in a batch. */
export function batchSizeSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  batches: readonly BatchStatistics[],
): Sample[] {
  const counted = batches.map(({ batchSize, computeInfer: { count } }) => ({ upTo: batchSize, count }))
  return histogramSamples(
    name,
    labels,
    bounds,
    counted,
    counted.reduce((rows, { upTo, count }) => rows + upTo * count, 0),
  )
}
