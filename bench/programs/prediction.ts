import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InferenceEngine, type Feeds, type Model } from 'zerohop'
import type { Arrival } from '../../src/observe/arrival.ts'
import { loadArrivals } from '../../packages/perf/src/recordings/read-arrivals.ts'
import { calibrateService } from '../../packages/perf/src/perf/service-calibration.ts'
import { type OpenArrivals, type RowShare, schedule } from '../../packages/perf/src/simulation/traffic.ts'
import { inlineIn, runsOf } from '../../packages/perf/src/simulation/recorded-run.ts'
import { simulate, type SimulationOptions } from '../../packages/perf/src/simulation/simulate.ts'
import type { SimulationResult } from '../../packages/perf/src/simulation/simulation-result.ts'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { percentile } from '../statistics.ts'
import { openLoop } from './open-loop.ts'

/** A load that a real engine is given, and simulated engines. */
export interface PredictionInput {
  /** `sleeper`: a function that waits, so that nothing else on the machine matters. */
  readonly model: BenchModel | 'sleeper'
  readonly instances: number
  readonly maxBatchSize: number
  /** Of what it can do at best, by calibration. */
  readonly load: number
  readonly arrivals: 'poisson' | 'bursts'
  readonly rows: readonly RowShare[]
  readonly seconds: number
  readonly calibrationSeconds: number
  readonly seed: number
}

/** Latencies and throughput of a run, real or not. */
export interface RunFigures {
  readonly p50Ms: number
  readonly p95Ms: number
  readonly p99Ms: number
  readonly perSecond: number
}

/** What was measured, and what was predicted of it. */
export interface PredictionResult {
  readonly requests: number
  readonly ratePerSecond: number
  readonly recorded: RunFigures
  /** The same requests once more. */
  readonly replayed: RunFigures
  /** By the runs of the recording. */
  readonly byRecording: RunFigures
  /** By a calibration before it. */
  readonly byModel: RunFigures
}

const given = input<PredictionInput>()
const { model: which, instances, maxBatchSize, load, rows: mix, seconds, seed } = given
const folder = mkdtempSync(join(tmpdir(), 'zerohop-prediction-'))
const engine = new InferenceEngine()
const model = await loadModel()
const feeds = new Map<number, Feeds>()

try {
  const service = await calibrateService(model, {
    maxBatchSize,
    instances,
    seconds: given.calibrationSeconds,
    feedsOf,
  })
  const timesMs = scheduleOf(service.serviceTimes, service.slowdown.at(-1)!)
  const first = await recorded(timesMs)
  const second = await recorded(timesMs)
  const configuration = { arrivals: { kind: 'recorded', arrivals: first }, instances, maxBatchSize } as const
  const recordedService: Pick<SimulationOptions, 'serviceTimes' | 'overheads'> = {
    serviceTimes: { recorded: runsOf(first) },
    overheads: { inline: inlineIn(first) },
  }
  answer({
    requests: first.length,
    ratePerSecond: (first.length * 1e6) / first.at(-1)!.atUs,
    recorded: figuresOf(first),
    replayed: figuresOf(second),
    byRecording: figuresOfResult(simulate({ ...configuration, ...recordedService })),
    byModel: figuresOfResult(simulate({ ...configuration, ...service })),
  } satisfies PredictionResult)
} finally {
  await engine.close()
  rmSync(folder, { recursive: true })
}

async function loadModel(): Promise<Model> {
  if (which !== 'sleeper')
    return engine.load('model', {
      path: which.path,
      maxBatchSize,
      instanceGroup: [{ kind: 'cpu', count: instances }],
    })
  const tensor = { type: 'float32', dims: [1] } as const
  const sleeper = await engine.loadFunction('model', {
    module: new URL('./sleeper.mjs', import.meta.url).href, inputs: [{ name: 'x', ...tensor }], outputs: [{ name: 'y', ...tensor }], maxBatchSize, instanceGroup: [{ count: instances }],
  }) // prettier-ignore
  return sleeper as unknown as Model
}

function feedsOf(rows: number): Feeds {
  const made =
    feeds.get(rows) ?? feedsFor(which === 'sleeper' ? { path: '', input: 'x', rowDims: [1] } : which, 1, rows)
  feeds.set(rows, made)
  return made
}

function scheduleOf(table: readonly { rows: number; ms: number }[], slowdown: number) {
  const capacity = (Math.max(...table.map(({ rows, ms }) => rows / ms)) * 1000 * instances) / slowdown
  const shares = mix.reduce((sum, { share }) => sum + share, 0)
  const meanRows = mix.reduce((sum, { rows, share }) => sum + rows * share, 0) / shares
  const ratePerSecond = (load * capacity) / meanRows
  // Bursts come twice as fast as the rate, for half of the time.
  const arrivals: OpenArrivals =
    given.arrivals === 'poisson'
      ? { kind: 'poisson', ratePerSecond }
      : { kind: 'on-off', ratePerSecond: 2 * ratePerSecond, onMs: 500, offMs: 500 }
  const requests = Math.max(20, Math.floor(ratePerSecond * seconds))
  return schedule({ arrivals, requests, rows: mix, burst: 0, loadSteps: [], models: 1, seed })
}

async function recorded({ timesMs, rows }: ReturnType<typeof schedule>): Promise<Arrival[]> {
  const path = join(folder, 'requests.jsonl')
  const recording = await engine.recordArrivals(path)
  const answers: Promise<unknown>[] = []
  await openLoop(timesMs, () => void answers.push(model.infer(feedsOf(rows[answers.length]!))))
  await Promise.all(answers)
  await recording.stop()
  return loadArrivals(path)
}

function figuresOf(arrivals: readonly Arrival[]): RunFigures {
  const unknown = arrivals.filter(({ latencyUs }) => latencyUs === undefined).length
  if (unknown > 0)
    throw new Error(
      `Expected the latency of each request; ${unknown} of ${arrivals.length} have none: so many wait at once that they were recorded before they were answered.`,
    )
  const latenciesMs = arrivals.map(({ latencyUs }) => latencyUs! / 1000)
  const lastMs = arrivals.reduce((last, { atUs, latencyUs }) => Math.max(last, (atUs + latencyUs!) / 1000), 0)
  return {
    p50Ms: percentile(latenciesMs, 0.5),
    p95Ms: percentile(latenciesMs, 0.95),
    p99Ms: percentile(latenciesMs, 0.99),
    perSecond: (arrivals.length * 1000) / lastMs,
  }
}

function figuresOfResult({ p50Ms, p95Ms, p99Ms, throughputPerSecond }: SimulationResult): RunFigures {
  return { p50Ms: p50Ms!, p95Ms: p95Ms!, p99Ms: p99Ms!, perSecond: throughputPerSecond }
}
