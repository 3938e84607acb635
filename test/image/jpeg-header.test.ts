import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { exifOrientation, readPlainJpeg } from '../../src/features/image/plain-jpeg.ts'
import { mulberry32 } from '../../src/base/numbers.ts'
import { exifOf, exifSegment, jpegOf, pictureOf, segment, segmentsOf, withSegments } from './jpegs.ts'

const size = { width: 40, height: 30 }
const plain = await jpegOf(size.width, size.height)
const adobe = (transform: number) =>
  segment(0xffee, Buffer.from([...Buffer.from('Adobe'), 0, 100, 0, 0, 0, 0, transform]))
const comment = segment(0xfffe, Buffer.from('a comment'))

/** The file with bytes of the segment that describes the image written over. */
function withFrame(jpeg: Buffer, change: (frame: Buffer) => void): Buffer {
  const changed = Buffer.from(jpeg)
  const at = segmentsOf(changed).find((start) => [0xffc0, 0xffc2].includes(changed.readUInt16BE(start)))!
  change(changed.subarray(at))
  return changed
}

describe('the header of a JPEG', () => {
  it.each<[string, () => Buffer | Promise<Buffer>]>([
    ['is baseline', () => plain],
    ['is progressive', () => jpegOf(size.width, size.height, { progressive: true })],
    ['is not subsampled', () => jpegOf(size.width, size.height, { chromaSubsampling: '4:4:4' })],
    ['has comments', () => withSegments(plain, comment, comment)],
    [
      'has XMP',
      () => withSegments(plain, segment(0xffe1, Buffer.from('http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>'))),
    ],
    ['has what Photoshop adds', () => withSegments(plain, segment(0xffed, Buffer.from('Photoshop 3.0\0')))],
    ['has EXIF data, the right way up', () => withSegments(plain, exifSegment(exifOf(1)))],
    ['has EXIF data in the other byte order', () => withSegments(plain, exifSegment(exifOf(1, false)))],
    ['is YCbCr by its Adobe segment', () => withSegments(plain, adobe(1))],
  ])('is plain where it %s', async (_, made) => {
    expect(readPlainJpeg(await made())).toEqual({ ...size, isGrey: false })
  })

  it('tells whether it is grey', async () => {
    const grey = sharp(pictureOf(size.width, size.height), { raw: { ...size, channels: 3 } })
      .toColourspace('b-w')
      .jpeg()
    expect(readPlainJpeg(await grey.toBuffer())).toEqual({ ...size, isGrey: true })
  })

  it.each<[string, () => Buffer | Promise<Buffer>]>([
    ['has a colour profile', () => sharp(plain).withIccProfile('p3').jpeg().toBuffer()],
    ['stands on its side', () => withSegments(plain, exifSegment(exifOf(6)))],
    ['stands on its side, in the other byte order', () => withSegments(plain, exifSegment(exifOf(6, false)))],
    ['has EXIF data twice', () => withSegments(plain, exifSegment(exifOf(1)), exifSegment(exifOf(1)))],
    ['has EXIF data that cannot be read', () => withSegments(plain, exifSegment(exifOf(1).subarray(0, 20)))],
    ['is CMYK', () => sharp(plain).toColourspace('cmyk').jpeg().toBuffer()],
    ['is RGB by its Adobe segment', () => withSegments(plain, adobe(0))],
    [
      'has an Adobe segment that is cut short',
      () => withSegments(plain, segment(0xffee, Buffer.from('Adobe'))),
    ],
    [
      'is RGB by its names of channels',
      () =>
        withFrame(plain, (frame) =>
          [0, 1, 2].forEach((channel) => (frame[10 + 3 * channel] = 'RGB'.charCodeAt(channel))),
        ),
    ],
    ['has 12 bits', () => withFrame(plain, (frame) => (frame[4] = 12))],
    ['has two channels', () => withFrame(plain, (frame) => (frame[9] = 2))],
    ['has no width', () => withFrame(plain, (frame) => frame.writeUInt16BE(0, 7))],
    ['has no height yet', () => withFrame(plain, (frame) => frame.writeUInt16BE(0, 5))],
    ['is lossless', () => withFrame(plain, (frame) => frame.writeUInt16BE(0xffc3, 0))],
    ['is coded arithmetically', () => withFrame(plain, (frame) => frame.writeUInt16BE(0xffc9, 0))],
    ['describes the image twice', () => twice(plain)],
    ['has a hundred segments', () => withSegments(plain, ...Array.from({ length: 100 }, () => comment))],
    ['has bytes between segments', () => withSegments(plain, Buffer.from([0xff]))],
    [
      'begins with pixels',
      () => Buffer.concat([plain.subarray(0, 2), plain.subarray(segmentsOf(plain).at(-1))]),
    ],
    ['is that of a PNG', () => sharp(plain).png().toBuffer()],
  ])('is not plain where it %s', async (_, made) => {
    expect(readPlainJpeg(await made())).toBeNull()
  })

  it('is not plain where it ends early, wherever that is', () => {
    const pixels = segmentsOf(plain).at(-1)!
    for (let length = 0; length < pixels + 4; length++)
      expect(readPlainJpeg(plain.subarray(0, length))).toBeNull()
  })

  it('is read in bytes of any kind, also where they are part of a larger buffer', () => {
    const larger = new Uint8Array(plain.length + 10)
    larger.set(plain, 7)
    expect(readPlainJpeg(larger.subarray(7, 7 + plain.length))).toMatchObject(size)
  })
})

function twice(jpeg: Buffer): Buffer {
  const starts = segmentsOf(jpeg)
  const index = starts.findIndex((start) => jpeg.readUInt16BE(start) === 0xffc0)
  return withSegments(jpeg, jpeg.subarray(starts[index], starts[index + 1]))
}

describe('the orientation by EXIF data', () => {
  it.each([1, 3, 6, 8])('is what they say: %i', (orientation) => {
    expect(exifOrientation(exifOf(orientation))).toBe(orientation)
    expect(exifOrientation(exifOf(orientation, false))).toBe(orientation)
  })

  it('is upright where they say nothing', () => {
    const other = exifOf(6)
    other.writeUInt16LE(0x010f, 10)
    expect(exifOrientation(other)).toBe(1)
  })

  it('is not known where it is no single short number, or what should be there is not', () => {
    const long = exifOf(6)
    long.writeUInt16LE(4, 12)
    const two = exifOf(6)
    two.writeUInt32LE(2, 14)
    const far = exifOf(6)
    far.writeUInt32LE(0xffffffff, 4)
    const many = exifOf(6)
    many.writeUInt16LE(0xffff, 8)
    for (const data of [
      long,
      two,
      far,
      many,
      exifOf(6).subarray(0, 21),
      Buffer.alloc(0),
      Buffer.from('II*'),
    ]) {
      expect(exifOrientation(data)).toBeUndefined()
    }
  })

  it('is looked for without reading beside the data, whatever they are', () => {
    const random = mulberry32(5)
    for (let round = 0; round < 2000; round++) {
      const data = exifOf(6, round % 2 === 0)
      for (let change = 0; change < 3; change++)
        data[Math.floor(random() * data.length)] = Math.floor(random() * 256)
      expect(() => exifOrientation(data.subarray(0, Math.ceil(random() * data.length)))).not.toThrow()
    }
  })
})
