import type { LatencyFigures, LevelResult, PerfResult } from '../../../src/perf/result-schema.ts'

/** Figures of a distribution around `us` with a long tail. */
export function latenciesAround(us: number): LatencyFigures {
  return {
    averageUs: us * 1.15,
    standardDeviationUs: us * 0.42,
    p50Us: us,
    p90Us: us * 1.6,
    p95Us: us * 2.1,
    p99Us: us * 3.4,
    p999Us: us * 7,
    maxUs: us * 12,
  }
}

export const noLatencies: LatencyFigures = {
  averageUs: 0,
  standardDeviationUs: 0,
  p50Us: 0,
  p90Us: 0,
  p95Us: 0,
  p99Us: 0,
  p999Us: 0,
  maxUs: 0,
}

/** A histogram as the measuring keeps it: 64 bounds to a power of two, those without a latency left out. */
function histogramAround(us: number, count: number): LevelResult['latencyHistogram'] {
  const bounds = Array.from({ length: 64 * 5 }, (_, index) => us * 0.5 * 2 ** (index / 64))
  const shares = bounds.map((bound) => Math.exp(-((Math.log(bound / us) / (bound < us ? 0.25 : 0.6)) ** 2)))
  const total = shares.reduce((a, b) => a + b, 0)
  return bounds
    .map((upToUs, index) => ({ upToUs, count: Math.round((count * shares[index]!) / total) }))
    .filter((bin) => bin.count > 0)
}

/** A level at which a model of 250 us a run and at most `cores` runs at once is asked by `level` callers. */
export function levelOf(level: number, changes: Partial<LevelResult> = {}): LevelResult {
  const batch = Math.min(8, Math.max(1, level / 2))
  const inferUs = 180 + 40 * batch
  const queueUs = Math.max(4, (level / (2 * batch) - 1) * inferUs)
  const requestUs = 8 + queueUs + 6 * batch + inferUs + 3 * batch
  const inferencesPerSecond = (level * 1e6) / requestUs
  const requestCount = Math.round(inferencesPerSecond * 5)
  const executionCount = Math.round(requestCount / batch)
  return {
    level,
    stable: true,
    windowSeconds: 5,
    requestCount,
    inferenceCount: requestCount,
    inferencesPerSecond,
    latency: latenciesAround(requestUs),
    latencyHistogram: histogramAround(requestUs, requestCount),
    server: {
      inferenceCount: requestCount,
      executionCount,
      successCount: requestCount,
      cacheHitCount: 0,
      cacheMissCount: 0,
      cacheHitUs: 0,
      cacheMissUs: 0,
      requestUs,
      overheadUs: 8,
      queueUs,
      computeInputUs: 6 * batch,
      computeInferUs: inferUs,
      computeOutputUs: 3 * batch,
    },
    batchSizes: [1, 2, 4, 6, 8]
      .filter((size) => size <= 2 * batch)
      .map((batchSize) => ({
        batchSize,
        count: Math.round(executionCount / (1 + Math.abs(batchSize - batch))),
      })),
    batchReasons: {
      full: level > 8 ? executionCount : 0,
      idle: executionCount,
      delay: Math.round(executionCount / 5),
    },
    failures: {},
    sendLag: null,
    delayedCount: 0,
    eventLoopDelay: latenciesAround(120 + 10 * level),
    cpuCores: Math.min(2, 0.6 + level / 10),
    goodput: null,
    sequences: null,
    sentPerSecond: inferencesPerSecond,
    percentile: null,
    ...changes,
  }
}

export const emptyLevel = levelOf(1, {
  stable: false,
  requestCount: 0,
  inferenceCount: 0,
  inferencesPerSecond: 0,
  latency: noLatencies,
  latencyHistogram: [],
  server: {
    inferenceCount: 0,
    executionCount: 0,
    successCount: 0,
    cacheHitCount: 0,
    cacheMissCount: 0,
    cacheHitUs: 0,
    cacheMissUs: 0,
    requestUs: 0,
    overheadUs: 0,
    queueUs: 0,
    computeInputUs: 0,
    computeInferUs: 0,
    computeOutputUs: 0,
  },
  batchSizes: [],
  batchReasons: {},
  failures: { ERR_EXECUTION: 12 },
})

export function resultOf(changes: Partial<PerfResult> = {}): PerfResult {
  return {
    model: 'squeezenet',
    version: 1,
    settings: {
      model: 'squeezenet.onnx',
      'concurrency-range': '1:64',
      'measurement-interval': 5000,
      'stability-percentage': 10,
      percentile: 99,
      shape: ['data:1,3,224,224'],
      instanceGroups: [{ kind: 'cpu', count: 2 }],
      dynamicBatching: { maxQueueDelayMs: 0.1, preferredBatchSizes: [4, 8] },
    },
    machine: {
      cores: 2,
      cpu: 'A processor of 2 cores',
      node: '22.20.0',
      onnxruntime: '1.30.0',
      zerohop: '0.1.0',
    },
    date: '2026-11-22T23:50:00.000Z',
    mode: 'concurrency',
    levels: [1, 2, 4, 8, 16, 32, 64].map((level) => levelOf(level)),
    ...changes,
  }
}

/** In rate mode, with everything that can be told: a bound, failures, a sender that lags, levels that are not stable. */
export function richResult(): PerfResult {
  const levels = [100, 200, 400, 800, 1600, 3200].map((rate, index) =>
    levelOf(2 ** index, {
      level: rate,
      stable: rate < 3200,
      inferencesPerSecond: Math.min(rate, 2900),
      failures: rate < 1600 ? {} : { ERR_QUEUE_FULL: rate, ERR_TIMEOUT: rate / 8 },
      sendLag: latenciesAround(12 + rate / 20),
      delayedCount: rate < 1600 ? 0 : rate / 4,
      goodput: {
        withinMs: 10,
        perSecond: Math.min(rate, 2900) * (rate < 1600 ? 0.998 : 0.8),
        share: rate < 1600 ? 0.998 : 0.8,
      },
    }),
  )
  return resultOf({ mode: 'request-rate', levels })
}

const scenarioLatency = {
  minUs: 900,
  maxUs: 50_000,
  meanUs: 2000,
  p50Us: 1800,
  p90Us: 3000,
  p95Us: 4000,
  p97Us: 5000,
  p99Us: 9000,
  p999Us: 20_000,
}

/** A search for the peak of server. */
export const serverScenario: NonNullable<PerfResult['scenario']> = {
  scenario: 'server',
  mode: 'FindPeakPerformance',
  valid: false,
  reasons: ['too <few> queries'],
  belowMlperf: ['minDurationMs 5000 < 600000'],
  metric: { name: 'Completed samples per second', value: 812.5, unit: 'samples/s' },
  constraints: {
    performance: true,
    minDuration: true,
    minQueries: false,
    earlyStopping: true,
    noFailures: false,
  },
  earlyStopping: { satisfied: true, lines: ['Early stopping satisfied.'], estimates: [] },
  queryCount: 4000,
  sampleCount: 3990,
  overLatencyCount: 12,
  failures: { ERR_QUEUE_FULL: 10 },
  latency: scenarioLatency,
  sendLag: { ...scenarioLatency, p99Us: 77 },
  completedPerSecond: 812.5,
  scheduledPerSecond: 820,
  seconds: 5,
  inputs: 'same',
  peak: {
    targetQps: 812,
    sureQps: null,
    steps: [
      {
        targetQps: 900,
        met: false,
        sure: false,
        percentileUs: 80_000,
        completedPerSecond: 850,
        queryCount: 300,
        endedEarly: true,
      },
    ],
  },
  settings: {},
}
