import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { decodeImage, type ImageOptions } from '../../src/features/image/exports.ts'

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
