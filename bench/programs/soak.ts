import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor, openServer } from './servers.ts'

/** What to run and how often to look. */
export interface SoakInput {
  readonly model: BenchModel
  readonly maxBatchSize: number
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

const { model, maxBatchSize, concurrency, requests, sampleEvery } = input<SoakInput>()
const server = await openServer({ side: 'ours', model, maxBatchSize })
const samples: SoakSample[] = []
let begun = 0
let done = 0
await Promise.all(
  Array.from({ length: concurrency }, async (_, caller) => {
    const feeds = feedsFor({ side: 'ours', model }, caller)
    while (begun++ < requests) {
      await server.infer(feeds)
      if (++done % sampleEvery !== 0) continue
      globalThis.gc?.() // growth that a collection would take back is none
      const { rss, heapUsed } = process.memoryUsage()
      samples.push({ requests: done, rssBytes: rss, heapUsedBytes: heapUsed })
    }
  }),
)
await server.close()
answer(samples)
