import { describe, expect, it } from 'vitest'
import { reusePixels, takePixels } from '../../src/features/image/pixels.ts'

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
