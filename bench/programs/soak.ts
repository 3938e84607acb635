import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor, openServer, type Side } from '../server.ts'

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
let begun = 0
let done = 0

function sample(): void {
  globalThis.gc?.() // what a collection takes back has not grown
  const { rss, heapUsed } = process.memoryUsage()
  samples.push({ requests: done, rssBytes: rss, heapUsedBytes: heapUsed })
}

const callers = Array.from({ length: concurrency }, async (_, caller) => {
  const smallFeeds = feedsFor(small, caller)
  const largeFeeds = feedsFor(large, caller)
  while (begun < requests) {
    const isLarge = begun++ % largeEvery === 0
    await (isLarge ? largeModel.infer(largeFeeds) : smallModel.infer(smallFeeds))
    if (++done % sampleEvery === 0) sample()
  }
})
await Promise.all(callers)
await server.close()
answer(samples)
