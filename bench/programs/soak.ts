import { setTimeout as sleep } from 'node:timers/promises'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor, openServer } from '../server.ts'
import type { Side } from '../side.ts'

/** Two models in one process, their requests mixed. */
export interface SoakInput {
  readonly side: Side
  readonly small: BenchModel
  readonly large: BenchModel
  /** Every how many requests one goes to the model of large rows. */
  readonly largeEvery: number
  readonly concurrency: number
  readonly requests: number
  readonly sampleEvery: number
}

/** Memory after so many requests, in bytes. */
export interface SoakSample {
  readonly requests: number
  readonly rssBytes: number
  readonly heapUsedBytes: number
}

const { side, small, large, largeEvery, concurrency, requests, sampleEvery } = input<SoakInput>()
const server = await openServer(side)
const smallModel = await server.load({ model: small, maxBatchSize: 64 })
const largeModel = await server.load({ model: large, maxBatchSize: 8 })
const samples: SoakSample[] = []
const settleMs = 50
let begun = 0

async function caller(index: number, until: number): Promise<void> {
  const smallFeeds = feedsFor(small, index)
  const largeFeeds = feedsFor(large, index)
  while (begun < until) {
    const isLarge = begun++ % largeEvery === 0
    await (isLarge ? largeModel.infer(largeFeeds) : smallModel.infer(smallFeeds))
  }
}

// A look while requests are in flight would count what they hold, which is more at one time than at another.
while (begun < requests) {
  const until = Math.min(requests, begun + sampleEvery)
  await Promise.all(Array.from({ length: concurrency }, (_, index) => caller(index, until)))
  // What a collection takes back has not grown; buffers are freed on another thread, some time after it.
  globalThis.gc?.()
  await sleep(settleMs)
  globalThis.gc?.()
  await sleep(settleMs)
  const { rss, heapUsed } = process.memoryUsage()
  samples.push({ requests: begun, rssBytes: rss, heapUsedBytes: heapUsed })
}
await server.close()
answer(samples)
