import * as v from 'valibot'
import { batchSizes, counts, figure } from './saved-figures.ts'

const latency = v.object({
  minUs: figure,
  maxUs: figure,
  meanUs: figure,
  p50Us: figure,
  p90Us: figure,
  p95Us: figure,
  p97Us: figure,
  p99Us: figure,
  p999Us: figure,
})
const step = v.object({
  targetQps: figure,
  met: v.boolean(),
  sure: v.boolean(),
  percentileUs: figure,
  completedPerSecond: figure,
  queryCount: figure,
  endedEarly: v.boolean(),
})

/** What a scenario of LoadGen came to, in a file. */
export const savedScenario = v.looseObject({
  scenario: v.picklist(['single-stream', 'multi-stream', 'server', 'offline']),
  mode: v.picklist(['PerformanceOnly', 'FindPeakPerformance']),
  valid: v.boolean(),
  reasons: v.array(v.string()),
  belowMlperf: v.array(v.string()),
  metric: v.object({ name: v.string(), value: figure, unit: v.picklist(['us', 'samples/s']) }),
  constraints: v.object({
    performance: v.nullable(v.boolean()),
    minDuration: v.boolean(),
    minQueries: v.boolean(),
    earlyStopping: v.boolean(),
    noFailures: v.boolean(),
  }),
  earlyStopping: v.nullable(
    v.object({
      satisfied: v.boolean(),
      lines: v.array(v.string()),
      estimates: v.array(v.object({ percentile: figure, us: figure })),
    }),
  ),
  queryCount: figure,
  sampleCount: figure,
  overLatencyCount: figure,
  failures: counts,
  latency,
  sendLag: v.nullable(latency),
  completedPerSecond: figure,
  scheduledPerSecond: v.nullable(v.number()),
  seconds: figure,
  inputs: v.picklist(['random', 'same', 'unique']),
  peak: v.nullable(
    v.object({ targetQps: v.nullable(v.number()), sureQps: v.nullable(v.number()), steps: v.array(step) }),
  ),
  settings: v.record(v.string(), v.nullable(v.union([v.string(), v.number()]))),
})

const difference = v.object({
  output: v.string(),
  type: v.string(),
  absolute: figure,
  relative: figure,
  spread: figure,
  above: figure,
  sample: v.nullable(v.number()),
})

/** How far answers under load lay from those alone, in a file. */
export const savedAccuracy = v.looseObject({
  answers: figure, samples: figure, concurrency: figure, tolerance: figure, within: v.boolean(),
  outputs: v.array(difference),
  failures: counts, batchSizes, cacheHits: figure,
}) // prettier-ignore
