import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'

/** Requests that their callers withdraw while the model is overloaded. */
export interface CancelsInput {
  readonly model: BenchModel
  readonly maxBatchSize: number
  readonly cancels: number
  /** How often, after some to warm up. */
  readonly rounds: number
}

/** What is held while nothing waits and nothing runs. */
export interface Held {
  readonly pending: number
  readonly stagingBytes: number
  readonly heapUsedBytes: number
  readonly rssBytes: number
}

/** Before the counted rounds and after them. */
export interface CancelsResult {
  readonly before: Held
  readonly after: Held
  /** Requests that rejected with their own signal's reason, in the counted rounds. */
  readonly withdrawn: number
  /** Waiting after the cancels beyond those that nobody withdrew. */
  readonly leftWaiting: number
  /** How long cancelling all of them held the event loop, at most. */
  readonly longestMs: number
  /** The same for as many signals to which only an empty function listens. */
  readonly plainLongestMs: number
}

/** Requests that nobody withdraws: they keep the model busy. */
const patient = 16
const waitsMs = 100
const timeoutMs = 600_000
const settleMs = 50
const warmupRounds = 2

const { model, maxBatchSize, cancels, rounds } = input<CancelsInput>()
const engine = new InferenceEngine()
const loaded = await engine.load('slow', { path: model.path, maxBatchSize })
const feeds = feedsFor(model, 1)
let [withdrawn, leftWaiting, longestMs, plainLongestMs] = [0, 0, 0, 0]

const abortAll = (controllers: readonly AbortController[]): number => {
  const startMs = performance.now()
  for (const controller of controllers) controller.abort()
  return performance.now() - startMs
}

function plainRound(): void {
  const controllers = Array.from({ length: cancels }, () => new AbortController())
  for (const { signal } of controllers) signal.addEventListener('abort', () => {}, { once: true })
  plainLongestMs = Math.max(plainLongestMs, abortAll(controllers))
}

async function round(): Promise<void> {
  const answers = Array.from({ length: patient }, () => loaded.infer(feeds))
  const controllers = Array.from({ length: cancels }, () => new AbortController())
  const outcomes = controllers.map(async (controller) => {
    try {
      await loaded.infer(feeds, { signal: controller.signal, timeoutMs })
    } catch (reason) {
      if (reason === controller.signal.reason) withdrawn++
    }
  })
  await sleep(waitsMs)
  longestMs = Math.max(longestMs, abortAll(controllers))
  leftWaiting = Math.max(leftWaiting, loaded.stats().pendingRequestCount - patient)
  await Promise.all([...outcomes, ...answers])
}

async function look(): Promise<Held> {
  // Buffers are freed on another thread, some time after the collection.
  for (let count = 0; count < 3; count++) {
    globalThis.gc?.()
    await sleep(settleMs)
  }
  const { rss, heapUsed } = process.memoryUsage()
  const pending = loaded.stats().pendingRequestCount
  return { pending, stagingBytes: engine.stats().staging!.usedBytes, heapUsedBytes: heapUsed, rssBytes: rss }
}

for (let count = 0; count < warmupRounds; count++) {
  plainRound()
  await round()
}
const before = await look()
;[withdrawn, longestMs, plainLongestMs] = [0, 0, 0]
for (let count = 0; count < rounds; count++) {
  plainRound()
  await round()
}
const after = await look()
await engine.close()
answer({ before, after, withdrawn, leftWaiting, longestMs, plainLongestMs } satisfies CancelsResult)
