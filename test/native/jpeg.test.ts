import { describe, expect, it } from 'vitest'
import { jpegDecoder } from '../../src/features/image/image-decoders.ts'
import { loadBinding } from '../../src/native/addon.ts'
import type { JpegFrame, JpegResize, ResizeAxis } from '../../src/native/native-binding.ts'
import { difference } from '../image/both-decoders.ts'
import { jpegOf, pictureOf } from '../image/jpegs.ts'

const { binding } = loadBinding()

describe.skipIf(binding === null)('the decoder of JPEGs in the addon', () => {
  const addon = binding!
  const frame: JpegFrame = { width: 40, height: 30, shrink: 1 }
  const axis: ResizeAxis = { shrink: 2, start: 0.5, count: 15 }
  const resize: JpegResize = { columns: axis, rows: axis, filter: 0, offset: 0, stride: 45 }
  const bytes = new Uint8Array(100)
  const target = new Uint8Array(45 * 15)

  it('refuses what does not fit, and touches nothing then', () => {
    const axes = (changed: Partial<ResizeAxis>) => ({ ...resize, columns: { ...axis, ...changed } })
    const refused: [() => unknown, string][] = [
      [() => addon.decodeJpeg([1] as never, target, frame, resize), 'bytes'],
      [() => addon.decodeJpeg(new Uint16Array(4), target, frame, resize), 'bytes'],
      [() => addon.decodeJpeg(bytes, target.subarray(1), frame, resize), 'target'],
      [() => addon.decodeJpeg(bytes, target, undefined as never, resize), 'frame'],
      [() => addon.decodeJpeg(bytes, target, frame, null as never), 'resize'],
      [() => addon.decodeJpeg(bytes, target, { ...frame, width: 0 }, resize), 'width'],
      [() => addon.decodeJpeg(bytes, target, { ...frame, height: 65536 }, resize), 'height'],
      [() => addon.decodeJpeg(bytes, target, { ...frame, shrink: 3 }, resize), 'shrink'],
      [() => addon.decodeJpeg(bytes, target, { ...frame, shrink: 2 }, resize), 'columns'],
      [() => addon.decodeJpeg(bytes, target, frame, { ...resize, filter: 7 }), 'filter'],
      [() => addon.decodeJpeg(bytes, target, frame, { ...resize, offset: 1 }), 'target'],
      [() => addon.decodeJpeg(bytes, target, frame, { ...resize, stride: 44 }), 'target'],
      [() => addon.decodeJpeg(bytes, target, frame, { ...resize, columns: 5 as never }), 'columns'],
      [() => addon.decodeJpeg(bytes, target, frame, axes({ count: 0 })), 'count'],
      [() => addon.decodeJpeg(bytes, target, frame, axes({ count: 21 })), 'columns'],
      [() => addon.decodeJpeg(bytes, target, frame, axes({ shrink: Number.NaN })), 'columns'],
      [() => addon.decodeJpeg(bytes, target, frame, axes({ shrink: Number.POSITIVE_INFINITY })), 'columns'],
      [() => addon.decodeJpeg(bytes, target, frame, axes({ shrink: '2' as never })), 'shrink'],
      [() => addon.decodeJpeg(bytes, target, frame, axes({ start: -1 })), 'columns'],
      [() => addon.openJpegDecoder(7 as never), 'path'],
    ]
    for (const [call, what] of refused) expect(call).toThrow(what)
    expect(target.every((byte) => byte === 0)).toBe(true)
  })

  describe.skipIf(jpegDecoder() === null)('that has a library', () => {
    const decoder = jpegDecoder()!
    const whole: ResizeAxis = { shrink: 1, start: 0, count: 40 }
    const unchanged: JpegResize = {
      columns: whole,
      rows: { ...whole, count: 30 },
      filter: 0,
      offset: 0,
      stride: 120,
    }

    it('writes the pixels of a file', async () => {
      const pixels = new Uint8Array(120 * 30)
      const jpeg = await jpegOf(40, 30, { quality: 100, chromaSubsampling: '4:4:4' })
      expect(await decoder.decodeJpeg(jpeg, pixels, frame, unchanged)).toBe(true)
      expect(difference(pixels, pictureOf(40, 30)).mean).toBeLessThan(1)
    })

    it('says no to what is no file, is cut off, or has another size', async () => {
      const pixels = new Uint8Array(120 * 30)
      const jpeg = await jpegOf(40, 30)
      expect(await decoder.decodeJpeg(bytes, pixels, frame, unchanged)).toBe(false)
      expect(await decoder.decodeJpeg(new Uint8Array(), pixels, frame, unchanged)).toBe(false)
      expect(await decoder.decodeJpeg(jpeg.subarray(0, -20), pixels, frame, unchanged)).toBe(false)
      expect(await decoder.decodeJpeg(await jpegOf(41, 30), pixels, frame, unchanged)).toBe(false)
      expect(await decoder.decodeJpeg(await jpegOf(40, 31), pixels, frame, unchanged)).toBe(false)
    })

    it('keeps a copy of the file, whoever writes to it meanwhile', async () => {
      const jpeg = await jpegOf(40, 30)
      const rounds = Array.from({ length: 50 }, () =>
        decoder.decodeJpeg(jpeg, new Uint8Array(120 * 30), frame, unchanged),
      )
      jpeg.fill(0xff, 2)
      for (const done of await Promise.all(rounds)) expect(typeof done).toBe('boolean')
    })
  })
})
