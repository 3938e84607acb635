import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'
import { InferenceEngine, Tensor } from 'zerohop'
import { decodeImage } from 'zerohop/image'
import { answer, input } from '../child.ts'
import { percentile } from '../statistics.ts'

/** Photographs as files, decoded and classified, in rounds of so many requests. */
export interface Photographs {
  readonly side: 'plain' | 'ours'
  readonly model: string
  readonly images: readonly string[]
  readonly concurrency: number
  readonly rounds: readonly number[]
}

/** What a round was like, and the memory after it, in bytes. */
export interface PhotographsRound {
  readonly requests: number
  readonly perSecond: number
  /** As `ab` prints them, in milliseconds, by per cent of the requests. */
  readonly servedWithinMs: Readonly<Record<number, number>>
  readonly heapUsedBytes: number
  readonly externalBytes: number
  readonly rssBytes: number
}

const percents = [50, 66, 75, 80, 90, 95, 98, 99, 100]
const size = 224
const settleMs = 100

const { side, model, images, concurrency, rounds } = input<Photographs>()
const files = images.map((path) => readFileSync(path))
const { classify, close } = await (side === 'plain' ? plain() : ours())
const found: PhotographsRound[] = []
for (const requests of rounds) found.push(await round(requests))
await close()
answer(found)

type Served = { classify: (file: Buffer) => Promise<unknown>; close: () => Promise<void> }

async function ours(): Promise<Served> {
  const engine = new InferenceEngine()
  const loaded = await engine.load('squeezenet', { path: model, maxBatchSize: 8 })
  return {
    async classify(file) {
      const lease = loaded.lease()
      await decodeImage(file, { width: size, height: size, fit: 'cover', channels: 'bgr' }, { into: lease })
      return lease.infer()
    },
    close: () => engine.close(),
  }
}

/** What an application does without this library. */
async function plain(): Promise<Served> {
  const { InferenceSession } = await import('onnxruntime-node')
  const session = await InferenceSession.create(model)
  return {
    async classify(file) {
      const rgb = await sharp(file).resize(size, size, { fit: 'cover' }).removeAlpha().raw().toBuffer()
      const planes = new Float32Array(3 * size * size)
      for (let pixel = 0; pixel < size * size; pixel++) {
        for (let channel = 0; channel < 3; channel++)
          planes[(2 - channel) * size * size + pixel] = rgb[pixel * 3 + channel]!
      }
      return session.run({ data_0: new Tensor('float32', planes, [1, 3, size, size]) })
    },
    close: () => session.release(),
  }
}

async function round(requests: number): Promise<PhotographsRound> {
  const latenciesMs = new Float64Array(requests)
  let begun = 0
  const caller = async () => {
    while (begun < requests) {
      const at = begun++
      const fromMs = performance.now()
      await classify(files[at % files.length]!)
      latenciesMs[at] = performance.now() - fromMs
    }
  }
  const startMs = performance.now()
  await Promise.all(Array.from({ length: concurrency }, caller))
  const tookMs = performance.now() - startMs
  // Buffers are freed on another thread, some time after a collection.
  for (let times = 0; times < 2; times++) {
    globalThis.gc?.()
    await sleep(settleMs)
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  const latencies = Array.from(latenciesMs)
  return {
    requests,
    perSecond: (requests * 1000) / tookMs,
    servedWithinMs: Object.fromEntries(percents.map((percent) => [percent, percentile(latencies, percent / 100)])),
    heapUsedBytes: heapUsed, externalBytes: external, rssBytes: rss,
  } // prettier-ignore
}
