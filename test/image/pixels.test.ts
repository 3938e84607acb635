import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { decodeImage, type ImageOptions } from '../../src/features/image/exports.ts'
import { reusePixels, takePixels } from '../../src/features/image/pixels.ts'
import { losslessJpeg } from './lossless-jpegs.ts'

const size = { width: 8, height: 8, dtype: 'uint8' } as const
const [red, green, blue] = [200, 40, 90]
const plain = sharp({
  create: { width: 8, height: 8, channels: 3, background: { r: red, g: green, b: blue } },
})
const firstOf = async (file: Buffer, options = {}) => {
  const { data } = await decodeImage(file, { ...size, ...options })
  return [0, 64, 128].map((at) => data[at]!)
}

it.each(['png', 'jpeg', 'webp'] as const)(
  'a colour profile is what colours go to sRGB by, unless it is to be ignored: %s',
  async (format) => {
    const file = await plain.clone().withIccProfile('p3').toFormat(format, { quality: 100 }).toBuffer()
    const asStored = [...(await sharp(file, { ignoreIcc: true }).raw().toBuffer()).subarray(0, 3)]
    const found = await firstOf(file, { ignoreIcc: true })
    expect(found.every((value, channel) => Math.abs(value - asStored[channel]!) <= 2)).toBe(true)
    const converted = await firstOf(file)
    expect(
      Math.max(...converted.map((value, channel) => Math.abs(value - [red, green, blue][channel]!))),
    ).toBeLessThanOrEqual(4)
    expect(Math.max(...converted.map((value, channel) => Math.abs(value - found[channel]!)))).toBeGreaterThan(
      4,
    )
  },
)

it('ignoreIcc is true or false', async () => {
  await expect(decodeImage(Buffer.alloc(1), { ...size, ignoreIcc: 1 as never })).rejects.toMatchObject({
    code: 'ERR_INVALID_ARG',
    argument: 'ignoreIcc',
    expected: 'true or false',
  })
})

/** A black image with one white pixel, in a format without loss. */
function pointAt(x: number, y: number, width: number, height: number): Promise<Buffer> {
  const pixels = Buffer.alloc(3 * width * height)
  pixels.fill(255, 3 * (y * width + x), 3 * (y * width + x) + 3)
  return sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

async function grey(
  source: Buffer,
  options: ImageOptions,
): Promise<{ at: (x: number, y: number) => number; middle: readonly [number, number] }> {
  const { data } = await decodeImage(source, { channels: 'gray', ...options })
  const at = (x: number, y: number) => data[y * options.width + x]!
  let [sum, right, down] = [0, 0, 0]
  for (let y = 0; y < options.height; y++)
    for (let x = 0; x < options.width; x++) {
      sum += at(x, y)
      right += at(x, y) * x
      down += at(x, y) * y
    }
  return { at, middle: [right / sum, down / sum] }
}

/** Within a tenth of a pixel. */
function expectNear([x, y]: readonly [number, number], [right, down]: readonly [number, number]): void {
  expect(
    Math.max(Math.abs(x - right), Math.abs(y - down)),
    `${x}, ${y} instead of ${right}, ${down}`,
  ).toBeLessThan(0.1)
}

/** Where the middle of a pixel of the source lies in the result. */
const placeOf = (pixel: number, from: number, to: number) => ((pixel + 0.5) * to) / from - 0.5

describe('an image that is enlarged', () => {
  it.each([
    ['lanczos3', 8, 32],
    ['lanczos3', 20, 32],
    ['lanczos3', 30, 32],
    ['lanczos3', 100, 224],
    ['lanczos3', 9, 1000],
    ['cubic', 33, 50],
    ['linear', 8, 32],
    ['linear', 100, 224],
    ['mitchell', 20, 32],
    ['lanczos2', 30, 32],
  ] as const)('stays where it is (%s, %d to %d)', async (kernel, from, to) => {
    const { middle } = await grey(await pointAt(from >> 1, from >> 2, from, from), {
      width: to,
      height: to,
      fit: 'fill',
      kernel,
    })
    expectNear(middle, [placeOf(from >> 1, from, to), placeOf(from >> 2, from, to)])
  })

  it('goes on at its edges as it ends there', async () => {
    const source = await sharp(Buffer.from([200, 50, 50, 200]), { raw: { width: 2, height: 2, channels: 1 } })
      .png()
      .toBuffer()
    const { at } = await grey(source, { width: 40, height: 40, kernel: 'linear' })
    expect([at(0, 0), at(39, 0), at(0, 39), at(39, 39)]).toEqual([200, 50, 50, 200])
    const plain = await sharp(Buffer.alloc(3, 77), { raw: { width: 1, height: 1, channels: 3 } })
      .png()
      .toBuffer()
    expect([...(await decodeImage(plain, { width: 7, height: 5 })).data]).toEqual(Array(105).fill(77))
  })

  it('in one direction is made smaller in the other', async () => {
    const { middle } = await grey(await pointAt(60, 3, 120, 10), { width: 40, height: 50, fit: 'fill' })
    expectNear(middle, [placeOf(60, 120, 40), placeOf(3, 10, 50)])
  })

  it('is cut, framed, turned and scaled as others are', async () => {
    const cover = await grey(await pointAt(5, 4, 16, 8), { width: 64, height: 64 })
    expectNear(cover.middle, [placeOf(5, 16, 128) - 32, placeOf(4, 8, 64)])
    const contained = await grey(await pointAt(5, 4, 16, 8), { width: 64, height: 64, fit: 'contain' })
    expectNear(contained.middle, [placeOf(5, 16, 64), placeOf(4, 8, 32) + 16])
    const cropped = await grey(await pointAt(8, 4, 16, 8), {
      width: 32,
      height: 32,
      crop: { shorterSide: 64 },
    })
    expectNear(cropped.middle, [placeOf(8, 16, 128) - 48, placeOf(4, 8, 64) - 16])
    const turned = await sharp(await pointAt(5, 3, 16, 8))
      .withMetadata({ orientation: 6 })
      .png()
      .toBuffer()
    const upright = await grey(turned, { width: 32, height: 64, fit: 'fill' })
    expectNear(upright.middle, [placeOf(8 - 1 - 3, 8, 32), placeOf(5, 16, 64)])
    const bars = await decodeImage(await pointAt(0, 0, 4, 2), {
      width: 8,
      height: 8,
      fit: 'contain',
      background: [9, 8, 7],
      layout: 'nhwc',
    })
    expect(Array.from(bars.data as Float32Array).slice(0, 6)).toEqual([9, 8, 7, 9, 8, 7])
  })
})

describe('pixel buffers', () => {
  const size = 3 * 211 * 211

  describe('memory for pixels', () => {
    it('serves the next image of its size once it was written elsewhere, and one only, however often that is said', () => {
      const pixels = takePixels(size)
      expect(takePixels(size) === pixels).toBe(false)
      reusePixels(pixels)
      reusePixels(pixels)
      expect(takePixels(size) === pixels).toBe(true)
      expect(takePixels(size) === pixels).toBe(false)
    })

    it('is not kept where it was not taken here, as that of sharp: no image would ever be written there, and others were driven out', () => {
      const own = takePixels(size)
      reusePixels(own)
      for (let image = 0; image < 100; image++) reusePixels(Buffer.alloc(size))
      expect(takePixels(size) === own).toBe(true)
      expect(takePixels(3 * 5 * 5)).toHaveLength(3 * 5 * 5)
    })

    it('is kept up to 4 MiB, what was used last for longest', () => {
      const large = 2 ** 20 + 1
      const pixels = Array.from({ length: 4 }, () => takePixels(large))
      for (const each of pixels) reusePixels(each)
      const again = Array.from({ length: 4 }, () => takePixels(large))
      expect(again.map((each) => pixels.indexOf(each))).toEqual([3, 2, 1, -1])
      const larger = takePixels(2 ** 22 + 1)
      reusePixels(larger)
      expect(takePixels(2 ** 22 + 1) === larger).toBe(false)
    })

    it('is kept for few images, however many small ones have been decoded', () => {
      const pixels = Array.from({ length: 1000 }, () => takePixels(12))
      for (const each of pixels) reusePixels(each)
      expect(
        Array.from({ length: 1000 }, () => takePixels(12)).filter((each) => pixels.includes(each)),
      ).toHaveLength(64)
    })
  })
})

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
