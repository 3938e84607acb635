import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, type Model } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { percentile } from '../statistics.ts'
import { evenTimes, openLoop } from './open-loop.ts'

/** A model whose requests are few and short, beside one that always has work, on one worker. */
export interface FairnessLatencyInput {
  readonly light: BenchModel
  readonly heavy: BenchModel
  readonly maxBatchSize: number
  readonly heavyCallers: number
  readonly intervalMs: number
  readonly warmupSeconds: number
  readonly seconds: number
}

/** The middle and the end of a distribution, in milliseconds. */
export interface Spread {
  readonly count: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** What it came to. */
export interface FairnessLatencyResult {
  /** Latency of the light model with the worker to itself. */
  readonly alone: Spread
  /** The same beside the heavy model. */
  readonly beside: Spread
  /** Runs of the heavy model meanwhile. */
  readonly heavyRuns: Spread
}

const { light, heavy, maxBatchSize, heavyCallers, intervalMs, warmupSeconds, seconds } =
  input<FairnessLatencyInput>()
const engine = new InferenceEngine({ cpuWorkers: 1 })
const lightModel = await engine.load('light', { path: light.path, maxBatchSize })
const heavyModel = await engine.load('heavy', { path: heavy.path, maxBatchSize })
let stopped = false
let heavyRunsMs: number[] = []

function spread(valuesMs: readonly number[]): Spread {
  return { count: valuesMs.length, p50Ms: percentile(valuesMs, 0.5), p99Ms: percentile(valuesMs, 0.99) }
}

/** Latencies of a request every so often, each from when it was to be sent. */
async function latenciesMs(model: Model, runMs: number): Promise<number[]> {
  const feeds = feedsFor(light, 1)
  const pending: Promise<number>[] = []
  await openLoop(evenTimes(intervalMs, runMs), (intendedMs) => {
    pending.push(model.infer(feeds).then(() => performance.now() - intendedMs))
  })
  return Promise.all(pending)
}

async function keepBusy(model: Model): Promise<void> {
  const feeds = feedsFor(heavy, 1)
  let lastBatch = 0
  const callers = Array.from({ length: heavyCallers }, async () => {
    while (!stopped) {
      const { report } = await model.infer(feeds, { report: true })
      if (report.batchId <= lastBatch) continue
      lastBatch = report.batchId
      heavyRunsMs.push(report.computeMs)
    }
  })
  await Promise.all(callers)
}

await latenciesMs(lightModel, warmupSeconds * 1000)
const alone = spread(await latenciesMs(lightModel, seconds * 250))
const busy = keepBusy(heavyModel)
await sleep(warmupSeconds * 1000)
heavyRunsMs = []
const beside = spread(await latenciesMs(lightModel, seconds * 1000))
const heavyRuns = spread(heavyRunsMs)
stopped = true
await busy
await engine.close()
answer({ alone, beside, heavyRuns } satisfies FairnessLatencyResult)
