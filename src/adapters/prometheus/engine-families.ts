import type { StagingStats } from '../../native/staging-pool.ts'
import type { WorkerStatistics } from '../../observe/worker-statistics.ts'
import { durationSamples } from './histogram-samples.ts'
import type { MetricFamily, Sample } from './metric-family.ts'

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

/** What an engine has besides its models. */
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
