import sharp, { type JpegOptions } from 'sharp'
import { mulberry32 } from '../../src/base/numbers.ts'

/** Pixels like those of a photograph: soft, with edges, and some noise. */
export function pictureOf(width: number, height: number, seed = 1): Buffer {
  const random = mulberry32(seed)
  const waves = Array.from({ length: 9 }, () => ({ x: random() / 12, y: random() / 12, phase: random() * 7 }))
  const rgb = Buffer.alloc(3 * width * height)
  for (let at = 0; at < rgb.length; at++) {
    const pixel = Math.floor(at / 3)
    const [x, y] = [pixel % width, Math.floor(pixel / width)]
    const soft = waves
      .slice(3 * (at % 3), 3 * (at % 3) + 3)
      .reduce((sum, wave) => sum + Math.sin(wave.x * x + wave.y * y + wave.phase), 0)
    const edge = (x - width / 2) ** 2 + (y - height / 3) ** 2 < (width * height) / 25 ? 60 : 0
    rgb[at] = Math.min(255, Math.max(0, 110 + 35 * soft + edge + 6 * random()))
  }
  return rgb
}

export function jpegOf(width: number, height: number, options: JpegOptions = {}): Promise<Buffer> {
  return sharp(pictureOf(width, height), { raw: { width, height, channels: 3 } })
    .jpeg({ quality: 90, ...options })
    .toBuffer()
}

/** A segment of a JPEG: marker, length, data. */
export function segment(marker: number, data: Uint8Array): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16BE(marker, 0)
  head.writeUInt16BE(data.byteLength + 2, 2)
  return Buffer.concat([head, data])
}

/** The file with segments put in front of all others. */
export function withSegments(jpeg: Uint8Array, ...segments: Uint8Array[]): Buffer {
  return Buffer.concat([jpeg.subarray(0, 2), ...segments, jpeg.subarray(2)])
}

/** Where each segment up to the pixels begins. */
export function segmentsOf(jpeg: Buffer): number[] {
  const found = [2]
  while (jpeg.readUInt16BE(found.at(-1)!) !== 0xffda)
    found.push(found.at(-1)! + 2 + jpeg.readUInt16BE(found.at(-1)! + 2))
  return found
}

/** EXIF data that say which way up an image is, and nothing else. */
export function exifOf(orientation: number, littleEndian = true): Buffer {
  const tiff = new DataView(new ArrayBuffer(26))
  tiff.setUint16(0, littleEndian ? 0x4949 : 0x4d4d)
  tiff.setUint16(2, 42, littleEndian)
  tiff.setUint32(4, 8, littleEndian)
  tiff.setUint16(8, 1, littleEndian)
  tiff.setUint16(10, 0x0112, littleEndian)
  tiff.setUint16(12, 3, littleEndian)
  tiff.setUint32(14, 1, littleEndian)
  tiff.setUint16(18, orientation, littleEndian)
  return Buffer.from(tiff.buffer)
}

export const exifSegment = (tiff: Uint8Array): Buffer =>
  segment(0xffe1, Buffer.concat([Buffer.from('Exif\0\0'), tiff]))
