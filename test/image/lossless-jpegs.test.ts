import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { decodeImage } from '../../src/features/image/exports.ts'
import { losslessJpeg } from './lossless-jpegs.ts'

const [width, height] = [240, 160]
/** Darker to the right and down. */
const valueAt = (x: number, y: number) => 250 - Math.floor((x + y) / 2)
const file = losslessJpeg(width, height, valueAt)
/** The same picture. */
const png = await sharp(
  Buffer.from(Array.from({ length: width * height }, (_, at) => valueAt(at % width, Math.floor(at / width)))),
  { raw: { width, height, channels: 1 } },
)
  .png()
  .toBuffer()

describe('a JPEG without loss', () => {
  it.each([
    { width: 240, height: 160 },
    { width: 60, height: 40 },
    { width: 24, height: 16 },
    { width: 16, height: 16 },
    { width: 16, height: 16, fit: 'contain' },
    { width: 16, height: 16, crop: { shorterSide: 20 } },
    { width: 16, height: 16, background: [255, 0, 0] },
  ] as const)('is the whole picture however small: %j', async (options) => {
    const [found, expected] = await Promise.all(
      [file, png].map((each) => decodeImage(each, { ...options, dtype: 'uint8' })),
    )
    const off = found!.data.map((value, at) => Math.abs(value - expected!.data[at]!))
    expect(Math.max(...off)).toBeLessThanOrEqual(1)
  })

  it('is turned the way up that its EXIF data say before it is cut', async () => {
    const exif = Buffer.from(
      'ffe100224578696600004d4d002a00000008000101120003000000010006000000000000',
      'hex',
    )
    const turned = Buffer.concat([file.subarray(0, 2), exif, file.subarray(2)])
    const expected = await decodeImage(await sharp(png).rotate(90).toBuffer(), {
      width: 10,
      height: 15,
      dtype: 'uint8',
    })
    const { data } = await decodeImage(turned, { width: 10, height: 15, dtype: 'uint8' })
    expect(Math.max(...data.map((value, at) => Math.abs(value - expected.data[at]!)))).toBeLessThanOrEqual(1)
  })
})
