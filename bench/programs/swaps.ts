import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, Tensor, type Model } from 'zerohop'
import { answer, input } from '../child.ts'
import { anonymousBytes } from '../memory.ts'
import type { BenchModel } from '../models.ts'
import { LoopDelayProbe } from '../loop-delay.ts'
import { ourSides, type OurSide } from '../side.ts'
import { percentile } from '../statistics.ts'
import { evenTimes, openLoop } from './open-loop.ts'

/** A model that is replaced again and again under load, beside another one. */
export interface SwapsInput {
  readonly side: OurSide
  /** Taken in turns; the outputs `y` are those of the first times `mark`. */
  readonly versions: readonly BenchModel[]
  readonly other: BenchModel
  readonly requestsPerSecond: number
  readonly othersPerSecond: number
  readonly swaps: number
  /** Of the time before the first replacement. */
  readonly quietSeconds: number
}

export interface SwapsResult {
  readonly requests: number
  readonly failed: number
  /** Answers that are not those of one whole version. */
  readonly mixed: number
  /** How many answers each version gave. */
  readonly byVersion: Readonly<Record<string, number>>
  /** Of one replacement, the median. */
  readonly swapMs: number
  /** Latency of the other model, and how late the event loop was. */
  readonly quiet: Beside
  readonly swapping: Beside
  /** Anonymous memory: before the first replacement, after some, and after all. */
  readonly bytesFirst: number
  readonly bytesBefore: number
  readonly bytesAfter: number
}

interface Beside {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly loopP99Ms: number
}

const { side, versions, other, requestsPerSecond, othersPerSecond, swaps, quietSeconds } = input<SwapsInput>()
const engine = new InferenceEngine(ourSides[side])
const configOf = (turn: number) => ({ path: versions[turn % versions.length]!.path, maxBatchSize: 32 })
const swapped = await engine.load('swapped', configOf(0))
const beside = await engine.load('beside', { path: other.path, maxBatchSize: 32 })

const feedsOf = ({ input: name, rowDims }: BenchModel) => ({
  [name]: new Tensor('float32', new Float32Array(rowDims.reduce((count, dim) => count * dim, 1)).fill(0.5), [
    1,
    ...rowDims,
  ]),
})
const feeds = feedsOf(versions[0]!)
const otherFeeds = feedsOf(other)
const right = (await swapped.infer(feeds))['y']!.data as Float32Array

const counts = { requests: 0, failed: 0, mixed: 0 }
const byVersion: Record<string, number> = {}

/** Asks the model that is replaced, and looks at whose answer it is. */
async function ask(): Promise<void> {
  counts.requests++
  try {
    const { y, mark } = await swapped.infer(feeds)
    const version = (mark!.data as Float32Array)[0]!
    const isWhole = (y!.data as Float32Array).every(
      (value, index) => Math.abs(value - version * right[index]!) <= 1e-3 * (1 + Math.abs(value)),
    )
    if (!isWhole) counts.mixed++
    byVersion[version] = (byVersion[version] ?? 0) + 1
  } catch {
    counts.failed++
  }
}

async function timed(model: Model, latenciesMs: number[]): Promise<void> {
  const startMs = performance.now()
  await model.infer(otherFeeds)
  latenciesMs.push(performance.now() - startMs)
}

/** The load of both models while `work` is done. */
async function under<T>(work: () => Promise<T>): Promise<Beside & { readonly result: T }> {
  let going = true
  const latenciesMs: number[] = []
  const sent: Promise<void>[] = []
  const keep = (promise: Promise<void>) => {
    sent.push(promise)
    if (sent.length > 10_000) sent.splice(0, 9000)
  }
  const load = async (perSecond: number, send: () => Promise<void>) => {
    while (going) await openLoop(evenTimes(1000 / perSecond, 100), () => keep(send()))
  }
  const probe = new LoopDelayProbe()
  probe.start()
  const loads = [load(requestsPerSecond, ask), load(othersPerSecond, () => timed(beside, latenciesMs))]
  const result = await work()
  going = false
  await Promise.all(loads)
  await Promise.all(sent)
  const { p99Ms: loopP99Ms } = await probe.stop()
  return { result, p50Ms: percentile(latenciesMs, 0.5), p99Ms: percentile(latenciesMs, 0.99), loopP99Ms }
}

async function settledBytes(): Promise<number> {
  for (let count = 0; count < 3; count++) {
    globalThis.gc?.()
    await sleep(500)
  }
  return anonymousBytes()
}

/** For what replacements need once: memory for two models, and the thread that opens the second. */
const firstSwaps = 20
let turn = 0

async function swap(times: number): Promise<number[]> {
  const tookMs: number[] = []
  while (tookMs.length < times) {
    const startMs = performance.now()
    await engine.load('swapped', configOf(++turn))
    tookMs.push(performance.now() - startMs)
    await sleep(20) // for the new one to be asked
  }
  return tookMs
}

await under(() => sleep(1000)) // what the first requests set up
const { result: _, ...quiet } = await under(() => sleep(quietSeconds * 1000))
const bytesFirst = await settledBytes()
await under(() => swap(firstSwaps))
const bytesBefore = await settledBytes()
const { result: tookMs, ...swapping } = await under(() => swap(swaps))
const bytesAfter = await settledBytes()
await engine.close()
answer({
  ...counts,
  byVersion,
  swapMs: percentile(tookMs, 0.5),
  quiet,
  swapping,
  bytesFirst,
  bytesBefore,
  bytesAfter,
} satisfies SwapsResult)
