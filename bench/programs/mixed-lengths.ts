import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, Tensor, type Model } from 'zerohop'
import { mulberry32, uniform } from '../../test/models/random.ts'
import { FlushOnMismatch } from '../baselines/flush-on-mismatch.ts'
import { answer, input } from '../child.ts'
import type { SequenceModel } from '../models.ts'

/** Requests of one row each, of lengths around two means. */
export interface MixedLengthsInput {
  /** Padding to one of `sizes`, or a new batch for every change of length. */
  readonly side: 'padded' | 'flushed'
  readonly model: SequenceModel
  readonly maxBatchSize: number
  /** Ascending; no row is longer than the last. */
  readonly sizes: readonly number[]
  readonly humps: readonly { readonly mean: number; readonly deviation: number }[]
  readonly callers: number
  readonly warmupSeconds: number
  readonly seconds: number
}

/** What it came to. */
export interface MixedLengthsResult {
  readonly requestsPerSecond: number
  readonly meanBatchRows: number
  /** Elements added by padding, to those of the requests. */
  readonly waste: number
  /** Largest difference of an output from that of the same row run by itself, unpadded. */
  readonly maxDifference: number
}

const samples = 128

const { side, model, maxBatchSize, sizes, humps, callers, warmupSeconds, seconds } =
  input<MixedLengthsInput>()
const { path, width } = model
const engine = new InferenceEngine()
const longest = sizes.at(-1)!
const random = mulberry32(3)
let stopped = false
let done = 0

type Infer = (data: Float32Array) => Promise<Float32Array>

/** Lengths of a normal distribution around either mean in turn by chance, kept within what there is a size for. */
function drawLength(): number {
  const { mean, deviation } = humps[Math.floor(random() * humps.length)]!
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return Math.min(longest, Math.max(1, Math.round(mean + normal * deviation)))
}

function singly(loaded: Model): Infer {
  return async (data) => {
    const outputs = await loaded.infer({
      [model.input]: new Tensor('float32', data, [1, data.length / width, width]),
    })
    return outputs[model.output]!.data as Float32Array
  }
}

const padding = { input: model.input, dim: 1, sizes, outputs: [{ name: model.output, dim: 1 }] }
const joining = side === 'padded' ? { padding } : { dynamicBatching: false as const }
const loaded = await engine.load(side, { path, maxBatchSize, ...joining })
const flush = new FlushOnMismatch(loaded, model, maxBatchSize)
const infer: Infer = side === 'padded' ? singly(loaded) : (data) => flush.infer(data)

const row = uniform(random, longest * width, 1)
const loops = Array.from({ length: callers }, async () => {
  while (!stopped) {
    await infer(row.subarray(0, drawLength() * width))
    done++
  }
})
await sleep(warmupSeconds * 1000)
const [firstDone, startMs] = [done, performance.now()]
const before = loaded.stats()
await sleep(seconds * 1000)
const requestsPerSecond = ((done - firstDone) / (performance.now() - startMs)) * 1000
const after = loaded.stats()
stopped = true
await Promise.all(loops)

const rows = Array.from({ length: samples }, () => uniform(random, drawLength() * width, 1))
const together = await Promise.all(rows.map((data) => infer(data)))
const alone = singly(await engine.load('alone', { path, maxBatchSize: 1, dynamicBatching: false }))
let maxDifference = 0
for (const [index, data] of rows.entries()) {
  const expected = await alone(data)
  const found = together[index]!
  if (found.length !== expected.length)
    throw new Error(`${expected.length} elements expected, ${found.length} received`)
  for (let at = 0; at < expected.length; at++)
    maxDifference = Math.max(maxDifference, Math.abs(found[at]! - expected[at]!))
}
await engine.close()
const { ownElements, paddedElements } = after.padding
answer({
  requestsPerSecond,
  meanBatchRows:
    (after.inferenceCount - before.inferenceCount) / (after.executionCount - before.executionCount),
  waste: ownElements === 0 ? 0 : paddedElements / ownElements - 1,
  maxDifference,
} satisfies MixedLengthsResult)
