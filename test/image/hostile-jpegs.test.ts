import sharp from 'sharp'
import { describe, expect, it, onTestFinished } from 'vitest'
import { mulberry32 } from '../../src/base/numbers.ts'
import { repetitions } from '../support/full.ts'
import { byBoth, difference, type Outcome } from './both-decoders.ts'
import { jpegOf, segment, segmentsOf, withSegments } from './jpegs.ts'
import { hasJpegDecoder, missingJpegDecoder, watchDecoder } from './watched-decoder.ts'

watchDecoder()

const size = { width: 20, height: 20 }
const baseline = await jpegOf(48, 40, { quality: 60 })
const progressive = await jpegOf(48, 40, { quality: 60, progressive: true })

it.each([100, 2 ** 32 - 1, 0])(
  'a progressive JPEG leaves nothing in the cache of sharp, whose settings stay: %s items',
  async (most) => {
    const before = sharp.cache().items.max
    onTestFinished(() => void sharp.cache({ items: before }))
    sharp.cache({ items: most })
    const { memory, files, items } = sharp.cache()
    const { sharps } = await byBoth(await jpegOf(700, 500, { progressive: true }), size)
    expect(sharps.pixels).toBeInstanceOf(Uint8Array)
    expect(sharp.cache()).toMatchObject({
      memory: { max: memory.max },
      files: { max: files.max },
      items: { current: 0, max: items.max },
    })
  },
)

/** Both end in the same way: with pictures that are alike, or with errors that say the same. */
function expectAlike({ ours, sharps }: { ours: Outcome; sharps: Outcome }, what: string): void {
  if (ours.pixels instanceof Error || sharps.pixels instanceof Error) {
    expect(ours.pixels, what).toBeInstanceOf(Error)
    expect(sharps.pixels, what).toBeInstanceOf(Error)
    const { code, argument, message } = sharps.pixels as Error & { code: string; argument: string }
    expect(ours.pixels, what).toMatchObject({ code, argument, message })
    return
  }
  expect(difference(ours.pixels, sharps.pixels).mean, what).toBeLessThanOrEqual(2)
}

describe.skipIf(!hasJpegDecoder)(
  `a JPEG that is not as it should be ends as with sharp alone${missingJpegDecoder}`,
  () => {
    it.each([
      ['baseline', baseline],
      ['progressive', progressive],
    ])('cut off in or between any of its segments: %s', async (_, jpeg) => {
      const ends = segmentsOf(jpeg).flatMap((start) => [
        start - 1,
        start,
        start + 1,
        start + 3,
        start + 4,
        start + 5,
      ])
      for (let end = segmentsOf(jpeg).at(-1)!; end < jpeg.length; end += 37) ends.push(end)
      for (const end of ends) expectAlike(await byBoth(jpeg.subarray(0, end), size), `the first ${end} bytes`)
    })

    it.each([
      ['baseline', baseline],
      ['progressive', progressive],
    ])('with lengths that are not true: %s', async (_, jpeg) => {
      for (const start of segmentsOf(jpeg)) {
        const length = jpeg.readUInt16BE(start + 2)
        for (const lie of [0, 1, 2, 3, length - 1, length + 1, length + 200, 0xffff]) {
          const changed = Buffer.from(jpeg)
          changed.writeUInt16BE(lie, start + 2)
          expectAlike(await byBoth(changed, size), `${lie} instead of ${length} at ${start}`)
        }
      }
    })

    it.each([
      ['baseline', baseline],
      ['progressive', progressive],
    ])('with a size that is not its own: %s', async (_, jpeg) => {
      const frame = segmentsOf(jpeg).find((start) => [0xffc0, 0xffc2].includes(jpeg.readUInt16BE(start)))!
      for (const [width, height] of [
        [0, 40],
        [48, 0],
        [0, 0],
        [1, 1],
        [49, 40],
        [48, 41],
        [47, 39],
        [480, 400],
        [65535, 65535],
        [65535, 1],
        [1, 65535],
        [8000, 8000],
      ] as const) {
        const changed = Buffer.from(jpeg)
        changed.writeUInt16BE(height, frame + 5)
        changed.writeUInt16BE(width, frame + 7)
        expectAlike(await byBoth(changed, size), `${width} x ${height}`)
      }
    })

    it('with thousands of segments, or of scans', async () => {
      const comments = Array.from({ length: 5000 }, () => segment(0xfffe, Buffer.from('.')))
      const many = await byBoth(withSegments(baseline, ...comments), size)
      expect(many.ours.decoded).toEqual([])
      expectAlike(many, 'comments')
      const starts = segmentsOf(progressive)
      const scan = progressive.subarray(
        starts.at(-1)!,
        progressive.indexOf(Buffer.from([0xff, 0xc4]), starts.at(-1)),
      )
      const scans = Array.from({ length: 3000 }, () => scan)
      const again = await byBoth(
        Buffer.concat([
          progressive.subarray(0, starts.at(-1)),
          ...scans,
          progressive.subarray(starts.at(-1)!),
        ]),
        size,
      )
      expect(again.ours.decoded).not.toContain(true)
      expectAlike(again, 'scans')
    })

    it.each([
      ['baseline', baseline],
      ['progressive', progressive],
    ])('with bytes that were changed at random: %s', async (_, jpeg) => {
      const random = mulberry32(11)
      for (let round = 0; round < repetitions(150, 40); round++) {
        const changed = Buffer.from(jpeg)
        // Half of them in what comes before the pixels.
        const range = round % 2 === 0 ? segmentsOf(jpeg).at(-1)! : jpeg.length
        for (let change = 0; change < 1 + (round % 3); change++)
          changed[2 + Math.floor(random() * (range - 2))] = Math.floor(random() * 256)
        expectAlike(await byBoth(changed, size), `round ${round}`)
      }
    })
  },
)
