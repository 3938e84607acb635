import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { decodeImage } from '../../src/image/exports.ts'
import { isLosslessJpeg } from '../../src/image/jpeg-header.ts'
import { jpegOf, pictureOf, segment, segmentsOf, withSegments } from './jpegs.ts'

/** A lossless JPEG (ITU-T T.81, annex H) of RGB pixels, each of which is predicted from the one on its left. */
function losslessJpeg(rgb: Uint8Array, width: number, height: number): Buffer {
  const bits: number[] = []
  const put = (value: number, count: number) => {
    for (let bit = count - 1; bit >= 0; bit--) bits.push((value >> bit) & 1)
  }
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) for (let channel = 0; channel < 3; channel++) {
    const at = (column: number, row: number) => rgb[3 * (row * width + column) + channel]!
    const predicted = x > 0 ? at(x - 1, y) : y > 0 ? at(x, y - 1) : 128
    const difference = at(x, y) - predicted
    const category = difference === 0 ? 0 : Math.floor(Math.log2(Math.abs(difference))) + 1
    put(category, 4) // the code of each category is its number, in 4 bits
    put(difference < 0 ? difference + 2 ** category - 1 : difference, category)
  }
  while (bits.length % 8 !== 0) bits.push(1)
  const coded = Array.from({ length: bits.length / 8 }, (_, byte) => Number.parseInt(bits.slice(8 * byte, 8 * byte + 8).join(''), 2))
  const size = [height >> 8, height & 255, width >> 8, width & 255]
  const names = [0x52, 0x47, 0x42] // R, G, B: not converted
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    segment(0xffc3, Buffer.from([8, ...size, 3, ...names.flatMap((name) => [name, 0x11, 0])])),
    segment(0xffc4, Buffer.from([0, 0, 0, 0, 9, ...Array<number>(12).fill(0), 0, 1, 2, 3, 4, 5, 6, 7, 8])),
    segment(0xffda, Buffer.from([3, ...names.flatMap((name) => [name, 0]), 1, 0, 0])),
    Buffer.from(coded.flatMap((byte) => (byte === 255 ? [255, 0] : [byte]))),
    Buffer.from([0xff, 0xd9]),
  ])
}

describe('a lossless JPEG', () => {
  const [width, height] = [227, 149]
  const raw = { width, height, channels: 3 } as const
  const picture = pictureOf(width, height)

  it.each([[227, 149], [114, 75], [57, 38], [32, 32], [16, 16], [5, 5]])('is made smaller as the same pixels in a PNG are: %d x %d', async (wide, high) => {
    const options = { width: wide, height: high, fit: 'fill', layout: 'nhwc', dtype: 'uint8' } as const
    const { data } = await decodeImage(losslessJpeg(picture, width, height), options)
    const { data: expected } = await decodeImage(await sharp(picture, { raw }).png().toBuffer(), options)
    expect(Buffer.compare(Buffer.from(data as Uint8Array), Buffer.from(expected as Uint8Array))).toBe(0)
  })

  it('is told from others by its header', async () => {
    const lossless = losslessJpeg(picture, width, height)
    expect(isLosslessJpeg(lossless)).toBe(true)
    expect(isLosslessJpeg(withSegments(lossless, segment(0xffe0, Buffer.alloc(14)), Buffer.from([0xff, 0xff])))).toBe(true)
    for (const options of [{}, { progressive: true }]) expect(isLosslessJpeg(await jpegOf(40, 30, options))).toBe(false)
    expect(isLosslessJpeg(await sharp(picture, { raw }).png().toBuffer())).toBe(false)
    for (let length = 0; length < segmentsOf(lossless)[0]!; length++) expect(isLosslessJpeg(lossless.subarray(0, length))).toBe(false)
    expect(isLosslessJpeg(Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0xff, 0xff, 0xff]))).toBe(false)
  })
})

describe('ignoreIcc', () => {
  it('takes pixels as they are stored, by both decoders', async () => {
    const raw = { width: 64, height: 48, channels: 3 } as const
    const picture = pictureOf(64, 48)
    const options = { width: 64, height: 48, layout: 'nhwc', dtype: 'uint8' } as const
    const differenceOf = async (profile: Buffer, plain: Buffer, ignoreIcc: boolean) => {
      const [one, other] = await Promise.all([decodeImage(profile, { ...options, ignoreIcc }), decodeImage(plain, options)])
      return Math.max(...(one.data as Uint8Array).map((value, at) => Math.abs(value - (other.data as Uint8Array)[at]!)))
    }
    // The same pixels with the profile of a wider colour space put beside them, which says that they are others.
    const withP3 = await sharp(picture, { raw }).withIccProfile('p3', { attach: true }).png().toBuffer()
    const stored = await sharp(withP3, { ignoreIcc: true }).raw().toBuffer()
    const plain = await sharp(stored, { raw }).png().toBuffer()
    expect(await differenceOf(withP3, plain, false)).toBeGreaterThan(4)
    expect(await differenceOf(withP3, plain, true)).toBe(0)
    const jpeg = await jpegOf(64, 48)
    const profile = (await sharp(withP3).metadata()).icc!
    const tagged = withSegments(jpeg, segment(0xffe2, Buffer.concat([Buffer.from('ICC_PROFILE\0'), Buffer.from([1, 1]), profile])))
    expect(await differenceOf(tagged, jpeg, false)).toBeGreaterThan(4)
    expect(await differenceOf(tagged, jpeg, true)).toBe(0)
  })

  it('is refused where it is neither true nor false', async () => {
    await expect(decodeImage(await jpegOf(8, 8), { width: 8, height: 8, ignoreIcc: 1 as never })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'ignoreIcc' })
  })
})
