import type { LatencyFigures, LevelResult } from '../../src/perf/result-schema.ts'

const latency: LatencyFigures = {
  averageUs: 1000.2,
  standardDeviationUs: 55,
  p50Us: 900,
  p90Us: 1500,
  p95Us: 1600,
  p99Us: 1700,
  p999Us: 1800,
  maxUs: 1900,
}

/** A level that was measured, but for what is said otherwise. */
export function levelOf(changes: Partial<LevelResult>): LevelResult {
  return {
    level: 1,
    stable: true,
    windowSeconds: 5,
    requestCount: 500,
    inferenceCount: 500,
    inferencesPerSecond: 100,
    latency,
    latencyHistogram: [{ upToUs: 2000, count: 500 }],
    server: {
      inferenceCount: 500,
      executionCount: 250,
      successCount: 500,
      cacheHitCount: 0,
      cacheMissCount: 0,
      cacheHitUs: 0,
      cacheMissUs: 0,
      requestUs: 350,
      overheadUs: 10,
      queueUs: 100,
      computeInputUs: 10,
      computeInferUs: 200,
      computeOutputUs: 30,
    },
    batchSizes: [{ batchSize: 2, count: 250 }],
    batchReasons: { idle: 250 },
    failures: {},
    sendLag: null,
    delayedCount: 0,
    eventLoopDelay: { ...latency, p50Us: 20, p99Us: 40, maxUs: 50 },
    cpuCores: 1.5,
    goodput: null,
    sequences: null,
    sentPerSecond: 101,
    percentile: null,
    ...changes,
  }
}
