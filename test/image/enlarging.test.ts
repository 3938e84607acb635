import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { decodeImage, type ImageKernel, type ImageOptions } from '../../src/image/exports.ts'

const kernels: ImageKernel[] = ['lanczos3', 'lanczos2', 'cubic', 'mitchell', 'linear', 'mks2013']
const nhwc = { layout: 'nhwc', dtype: 'uint8' } as const

/** A picture by what each pixel is; grey. */
async function picture(width: number, height: number, valueAt: (x: number, y: number) => number): Promise<Buffer> {
  const pixels = Buffer.alloc(3 * width * height)
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) pixels.fill(valueAt(x, y), 3 * (y * width + x), 3 * (y * width + x) + 3)
  return sharp(pixels, { raw: { width, height, channels: 3 } }).png().toBuffer()
}

/** Where the light of a picture has its middle. */
async function middleOf(file: Buffer, options: ImageOptions): Promise<[number, number]> {
  const { data } = await decodeImage(file, { ...options, layout: 'nhwc' })
  let [sum, across, down] = [0, 0, 0]
  for (let at = 0; at < options.width * options.height; at++) {
    const value = data[3 * at] as number
    sum += value
    across += value * (at % options.width)
    down += value * Math.floor(at / options.width)
  }
  return [across / sum, down / sum]
}

describe('an image that is enlarged', () => {
  it.each(kernels)('lies where it lay, and not half a pixel off: %s', async (kernel) => {
    for (const [from, to] of [[8, 32], [20, 32], [30, 32], [100, 224]] as const) {
      const place = Math.floor(from / 2)
      const file = await picture(from, from, (x, y) => (x === place && y === place ? 255 : 0))
      const wanted = ((place + 0.5) * to) / from - 0.5
      for (const found of await middleOf(file, { width: to, height: to, fit: 'fill', kernel })) expect(Math.abs(found - wanted)).toBeLessThan(0.1)
    }
  })

  it('is the same from either side', async () => {
    const file = await picture(7, 5, (x, y) => 20 * x + 10 * y)
    const turned = await sharp(file).rotate(180).toBuffer()
    const [one, other] = await Promise.all([file, turned].map((each) => decodeImage(each, { width: 30, height: 20, fit: 'fill', ...nhwc })))
    const reversed = Array.from(one!.data, (_, at) => one!.data[one!.data.length - 3 - 3 * Math.floor(at / 3) + (at % 3)]!)
    expect(Math.max(...other!.data.map((value, at) => Math.abs(value - reversed[at]!)))).toBeLessThanOrEqual(1)
  })

  it('has each pixel so many times by the nearest', async () => {
    const file = await picture(3, 2, (x, y) => 10 * x + 100 * y)
    const { data } = await decodeImage(file, { width: 6, height: 4, fit: 'fill', kernel: 'nearest', ...nhwc })
    expect(Array.from({ length: 24 }, (_, at) => data[3 * at])).toEqual([0, 0, 10, 10, 20, 20, 0, 0, 10, 10, 20, 20, 100, 100, 110, 110, 120, 120, 100, 100, 110, 110, 120, 120])
  })

  it('stays of one colour, also beside a background, in a part, and where it gets smaller in the other direction', async () => {
    const file = await picture(10, 40, () => 77)
    const of = (options: Partial<ImageOptions>) => decodeImage(file, { width: 24, height: 24, ...options, ...nhwc })
    for (const options of [{ fit: 'cover' }, { fit: 'fill' }, { crop: { shorterSide: 30 } }] as const) expect(new Set((await of(options)).data)).toEqual(new Set([77]))
    const { data } = await of({ fit: 'contain', width: 60, height: 80, background: [1, 2, 3] })
    expect([...data.subarray(0, 3), data[3 * 30]]).toEqual([1, 2, 3, 77])
    expect(data.filter((value) => value === 77)).toHaveLength(3 * 20 * 80)
  })

  it('is cut in the middle where it has other proportions, and seen from where its EXIF data say', async () => {
    const file = await picture(30, 10, (x) => (x < 10 ? 10 : x < 20 ? 120 : 250))
    const { data } = await decodeImage(file, { width: 20, height: 20, kernel: 'nearest', ...nhwc })
    expect(new Set(data)).toEqual(new Set([120]))
    const turned = await sharp(file).jpeg({ quality: 100 }).withMetadata({ orientation: 6 }).toBuffer()
    const { data: upright } = await decodeImage(turned, { width: 20, height: 60, kernel: 'nearest', ...nhwc })
    expect([upright[0]! < 30, Math.abs(upright[3 * 20 * 30]! - 120) < 20, upright.at(-1)! > 230]).toEqual([true, true, true])
  })
})
