import { InferenceEngine } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { median } from '../statistics.ts'

/** One caller that asks again as soon as it is answered. */
export interface ResponsesInput {
  readonly model: BenchModel
  /** Without a response cache; with one, something else each time; with one, always the same. */
  readonly side: 'plain' | 'miss' | 'hit'
  readonly seconds: number
}

/** What a call takes. */
export interface ResponsesResult {
  readonly p50Us: number
  readonly calls: number
}

/** Calls that are timed together: a clock tells no single hit. */
const together = 10

const { model, side, seconds } = input<ResponsesInput>()
const engine = new InferenceEngine({ inline: false })
// What is kept of those that miss is as little as can be, so that it is their own cost that is seen.
const responseCache = side === 'plain' ? false : side === 'miss' ? { maxBytes: 1 } : true
const loaded = await engine.load('model', {
  path: model.path,
  maxBatchSize: 1,
  responseCache,
  sessionOptions: { intraOpNumThreads: 1 },
})
const feeds = feedsFor(model, 1)
const data = feeds[model.input]!.data as Float32Array
const times: number[] = []
const warmMs = performance.now() + seconds * 250
const endMs = warmMs + seconds * 1000
for (let count = 0, nowMs = 0; nowMs < endMs;) {
  const startMs = performance.now()
  for (let call = 0; call < together; call++) {
    data[0] = side === 'hit' ? 0 : ++count
    await loaded.infer(feeds)
  }
  nowMs = performance.now()
  if (startMs > warmMs) times.push(((nowMs - startMs) * 1000) / together)
}
answer({ p50Us: median(times), calls: times.length * together } satisfies ResponsesResult)
await engine.close()
