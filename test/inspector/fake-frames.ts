import type { Frame, Load, ModelFrame, WindowFigures } from '../../src/adapters/inspector/frame.ts'

export const idle: Load = { waiting: 0, running: 0, window: null }

/** A second in which so many requests were answered, half of them in batches of 8. */
export function windowOf(answered: number, changes: Partial<WindowFigures> = {}): WindowFigures {
  return {
    answered,
    failed: 3,
    rows: answered,
    runs: answered / 5,
    latency: { p50Us: 900, p90Us: 1800, p99Us: 4200, maxUs: 9000 },
    overheadUs: 8,
    queueUs: 300,
    inputUs: 20,
    inferUs: 560,
    outputUs: 12,
    batchSizes: [
      { batchSize: 2, count: answered / 10 },
      { batchSize: 8, count: answered / 10 },
    ],
    batchReasons: { idle: answered / 10, full: answered / 10 },
    failures: { queueFull: 3 },
    ...changes,
  }
}

export function modelOf(name: string, changes: Partial<ModelFrame> = {}): ModelFrame {
  return {
    name, version: 1, state: 'ready', serves: true, isPipeline: false, waiting: 4, running: 1, maxBatchSize: 8, answeredCount: 12_000, failures: { queueFull: 9 },
    instanceCount: 1, instances: [{ name: `${name}_0`, worker: 'cpu-1', runs: 2400, busyShare: 0.7 }], window: windowOf(1000), ...changes,
  } // prettier-ignore
}

export function frameOf(atMs: number, models: readonly ModelFrame[], changes: Partial<Frame> = {}): Frame {
  const batch = {
    model: models[0]?.name ?? 'none',
    version: 1,
    rows: 8,
    requests: 8,
    reason: 'full',
    isRerun: false,
    instance: 'digits_0',
  }
  return {
    atMs,
    intervalMs: 1000,
    windowMs: 1000,
    all: { waiting: 4, running: 1, window: windowOf(1000) },
    models,
    modelsLeftOut: 0,
    running: [{ ...batch, id: 103 }],
    ended: [
      { ...batch, id: 101, inline: false, endedAtMs: atMs, inferUs: 560, wholeUs: 640 },
      { ...batch, id: 102, inline: false, endedAtMs: null, inferUs: null, wholeUs: null },
    ],
    endedLeftOut: 40,
    workers: [{ name: 'cpu-1', instances: 1, busyShare: 0.7, restarts: 0 }],
    staging: [
      {
        pool: 'models',
        kind: 'native',
        usedBytes: 2_000_000,
        highWaterBytes: 3_000_000,
        reservedBytes: 4_000_000,
        limitBytes: 256 * 2 ** 20,
        fallbacks: 0,
      },
    ],
    eventLoopDelay: { p50Us: 200, p90Us: 900, p99Us: 2000, maxUs: 4000 },
    residentBytes: 141e6,
    uptimeSeconds: 3700,
    ...changes,
  }
}
