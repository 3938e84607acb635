import { InferenceEngine, Tensor } from 'zerohop'
import { resolveImageOptions } from '../../src/options/image-options.ts'
import { writePixels } from '../../src/features/image/pixels.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { pixelRows, type PixelRows } from '../../src/features/image/pixel-rows.ts'
import { mulberry32 } from '../../test/models/random.ts'
import { identity } from '../../test/models/small.ts'
import { answer, input } from '../child.ts'
import { median } from '../statistics.ts'

/** How decoded pixels become rows of a batch. */
export interface LeasesInput {
  readonly seconds: number
}

/** What an image of 224 x 224 takes, in microseconds. */
export interface LeasesResult {
  readonly vectorInstructions: string
  readonly kernelUs: number
  /** Copying as many bytes as the kernel writes. */
  readonly memcpyUs: number
  /** The loop over tables that is taken without the addon. */
  readonly javaScriptUs: number
  /** From pixels to answers, by batches of 32: through an array and `infer()`, and through a lease. */
  readonly arrayUs: number
  readonly leaseUs: number
  /** Of the rows of all leases. */
  readonly rowsInPlace: number
  readonly rowsCopied: number
}

const { seconds } = input<LeasesInput>()
const images = 32
const rowDims = [3, 224, 224]
const elements = 3 * 224 * 224
const options = resolveImageOptions({
  width: 224,
  height: 224,
  scale: 1 / 255,
  mean: [0.485, 0.456, 0.406],
  std: [0.229, 0.224, 0.225],
})

const random = mulberry32(5)
const pixels = Array.from({ length: images }, () =>
  Uint8Array.from({ length: elements }, () => random() * 256),
)
const { binding } = loadBinding()
if (binding === null) throw new Error('The trial takes the addon.')

/** The best of many turns over all images: what the machine does beside it makes them longer, never shorter. */
function best(each: (index: number) => void): number {
  let us = Infinity
  for (const endMs = performance.now() + seconds * 250; performance.now() < endMs;) {
    const startMs = performance.now()
    for (let index = 0; index < images; index++) each(index)
    us = Math.min(us, ((performance.now() - startMs) * 1000) / images)
  }
  return us
}

const rows = Array.from({ length: images }, () => new Float32Array(elements))
const others = Array.from({ length: images }, () => new Float32Array(elements).fill(1))
const bytes = 4 * elements
const shared = new Float32Array(new SharedArrayBuffer(bytes)) // to which the addon does not write
const kernelUs = best((index) => writePixels(pixels[index]!, rows[index]!, options))
const memcpyUs = best((index) => binding.copyRows(others[index]!, 0, bytes, rows[index]!, 0, bytes, bytes, 1))
const javaScriptUs = best((index) => writePixels(pixels[index]!, shared, options))

const engine = new InferenceEngine({ inline: false })
const model = await engine.load('images', {
  path: identity('float32', rowDims),
  maxBatchSize: images,
  warmup: { batchSizes: 'all' },
})
const throughArray = (index: number): Promise<unknown> => {
  const row = new Float32Array(elements)
  writePixels(pixels[index]!, row, options)
  return model.infer({ x: new Tensor('float32', row, [1, ...rowDims]) })
}
const throughLease = (index: number): Promise<unknown> => {
  const lease = model.lease()
  const { write } = (lease as unknown as PixelRows)[pixelRows]
  write('x', 0, { dtype: 'float32', dims: rowDims }, (row) => writePixels(pixels[index]!, row, options))
  return lease.infer()
}
const sides = [throughArray, throughLease].map((call) => ({ call, times: [] as number[] }))
for (const endMs = performance.now() + seconds * 1000; performance.now() < endMs;) {
  for (const { call, times } of sides) {
    const startMs = performance.now()
    await Promise.all(pixels.map((_, index) => call(index)))
    times.push(((performance.now() - startMs) * 1000) / images)
  }
}
const [arrayUs, leaseUs] = sides.map(({ times }) => median(times)) as [number, number]
const { rowsInPlace, rowsCopied } = model.stats().leases
const { vectorInstructions } = binding
answer({
  vectorInstructions,
  kernelUs,
  memcpyUs,
  javaScriptUs,
  arrayUs,
  leaseUs,
  rowsInPlace,
  rowsCopied,
} satisfies LeasesResult)
await engine.close()
