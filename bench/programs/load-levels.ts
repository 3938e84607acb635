import { InferenceEngine, type Model, type ModelOptions, type ModelStatistics } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { percentile } from '../statistics.ts'
import { evenTimes, openLoop, poissonTimes } from './open-loop.ts'

/** A load on a model. */
export type Level =
  /** Callers that each wait for their answer before they ask again. */
  | { readonly kind: 'callers'; readonly callers: number; readonly seconds: number }
  /** Requests that come so many a second, whatever becomes of them; a latency counts from when one was meant to come. */
  | { readonly kind: 'constant' | 'poisson'; readonly perSecond: number; readonly seconds: number }

/** Loads one after the other on one model; without `config` a plain session on the callers' thread has it. */
export interface LoadLevels {
  readonly model: BenchModel
  readonly config?: ModelOptions
  readonly levels: readonly Level[]
  readonly warmupSeconds: number
}

/** What the callers saw of one load, and the engine's statistics of it. */
export interface LevelFigures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p95Ms: number
  readonly p99Ms: number
  readonly meanBatchRows: number
  /** Mean of the requests; 0 of a plain session, where nobody can tell. */
  readonly queueMs: number
  /** Runs by rows. */
  readonly batches: Readonly<Record<number, number>>
}

type Infer = (caller: number) => Promise<unknown>

const { model, config, levels, warmupSeconds } = input<LoadLevels>()
const served = config === undefined ? await plain() : await ours(config)
await measure({ kind: 'callers', callers: 8, seconds: warmupSeconds })
const found: LevelFigures[] = []
for (const level of levels) found.push(await measure(level))
await served.close()
answer(found)

async function plain(): Promise<{
  infer: Infer
  stats: () => ModelStatistics | null
  close: () => Promise<void>
}> {
  const { InferenceSession } = await import('onnxruntime-node')
  const session = await InferenceSession.create(model.path)
  return {
    infer: (caller) => session.run(feedsFor(model, caller)),
    stats: () => null,
    close: () => session.release(),
  }
}

async function ours(options: ModelOptions): ReturnType<typeof plain> {
  const engine = new InferenceEngine()
  const loaded: Model = await engine.load('model', { ...options, path: model.path })
  return {
    infer: (caller) => loaded.infer(feedsFor(model, caller)),
    stats: () => loaded.stats(),
    close: () => engine.close(),
  }
}

async function measure(level: Level): Promise<LevelFigures> {
  const before = served.stats()
  const latenciesMs: number[] = []
  const startMs = performance.now()
  const ask = async (caller: number, fromMs = performance.now()) => {
    await served.infer(caller)
    latenciesMs.push(performance.now() - fromMs)
  }
  if (level.kind === 'callers') await closed(level, ask)
  else await open(level, ask)
  const tookMs = performance.now() - startMs
  return {
    perSecond: (latenciesMs.length * 1000) / tookMs,
    p50Ms: percentile(latenciesMs, 0.5), p95Ms: percentile(latenciesMs, 0.95), p99Ms: percentile(latenciesMs, 0.99),
    ...since(before, served.stats()),
  } // prettier-ignore
}

async function closed(
  { callers, seconds }: Extract<Level, { kind: 'callers' }>,
  ask: (caller: number) => Promise<void>,
): Promise<void> {
  const endMs = performance.now() + seconds * 1000
  const loop = async (_: unknown, caller: number) => {
    while (performance.now() < endMs) await ask(caller)
  }
  await Promise.all(Array.from({ length: callers }, loop))
}

async function open(
  { kind, perSecond, seconds }: Exclude<Level, { kind: 'callers' }>,
  ask: (caller: number, fromMs: number) => Promise<void>,
): Promise<void> {
  const timesMs =
    kind === 'constant'
      ? evenTimes(1000 / perSecond, seconds * 1000)
      : poissonTimes(5, perSecond, seconds * 1000)
  const asked: Promise<void>[] = []
  await openLoop(timesMs, (intendedMs) => void asked.push(ask(asked.length % 64, intendedMs)))
  await Promise.all(asked)
}

/** What the engine did between two looks at its statistics. */
function since(
  before: ModelStatistics | null,
  after: ModelStatistics | null,
): Pick<LevelFigures, 'meanBatchRows' | 'queueMs' | 'batches'> {
  if (before === null || after === null) return { meanBatchRows: 1, queueMs: 0, batches: {} }
  const earlier = new Map(
    before.batchStats.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count]),
  )
  const batches = after.batchStats
    .map(({ batchSize, computeInfer }): [number, number] => [
      batchSize,
      computeInfer.count - (earlier.get(batchSize) ?? 0),
    ])
    .filter(([, count]) => count > 0)
  const queue = [before, after].map(({ inferenceStats }) => inferenceStats.queue)
  return {
    meanBatchRows:
      (after.inferenceCount - before.inferenceCount) / (after.executionCount - before.executionCount),
    queueMs: (queue[1]!.ns - queue[0]!.ns) / (queue[1]!.count - queue[0]!.count) / 1e6,
    batches: Object.fromEntries(batches),
  }
}
