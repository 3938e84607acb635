import type { NativeJpeg } from '../../native/native-binding.ts'
import { type ResolvedImageOptions, resizeFilters } from '../../options/image-options.ts'
import { jpegDecoder } from './image-decoders.ts'
import { takePixels } from './pixels.ts'
import { type ImageSize, type JpegPlan, planJpeg } from './resize-plan.ts'

/** This decoder cannot be interrupted. Larger images go to sharp, which can stop between strips. */
const mostPixels = 2 ** 24

/** Most pixels after decoding. They are in memory all at once, at 3 bytes each. */
const mostDecodedPixels = 2 ** 22

/**
 * Decodes a plain JPEG to the same pixels as sharp, but faster. Returns `null` if the addon or library is
 * missing, and for any image that needs more than that or is irregular: sharp then decides.
 */
export async function decodePlainJpeg(
  bytes: Uint8Array,
  options: ResolvedImageOptions,
): Promise<Buffer | null> {
  const decoder = jpegDecoder()
  const filter = (resizeFilters as readonly string[]).indexOf(options.kernel)
  if (decoder === null || filter === -1) return null
  try {
    const plan = planOf(bytes, options)
    return plan === null ? null : await decode(decoder, bytes, plan, filter, options)
  } catch {
    return null // out of memory, or the bytes are gone
  }
}

function planOf(bytes: Uint8Array, options: ResolvedImageOptions): JpegPlan | null {
  const jpeg = readPlainJpeg(bytes, options.ignoreIcc)
  if (jpeg === null || isOdd(jpeg, bytes, options)) return null
  // With a coloured background sharp turns a grey image into a colour image, and reads all of its pixels.
  if (jpeg.isGrey && isTinted(options)) return null
  const plan = planJpeg(jpeg, options)
  return plan === null || isTooLarge(plan) ? null : plan
}

/** In a grey image sharp paints any background grey, unless told to work in colour. */
export function isTinted({ background: [red, green, blue] }: ResolvedImageOptions): boolean {
  return red !== green || green !== blue
}

/** A file longer than its pixels is irregular. */
function isOdd(
  { width, height }: PlainJpeg,
  bytes: Uint8Array,
  { limitInputPixels }: ResolvedImageOptions,
): boolean {
  const pixels = width * height
  return pixels > Math.min(limitInputPixels, mostPixels) || bytes.byteLength > 3 * pixels
}

function isTooLarge({ frame: { width, height, shrink } }: JpegPlan): boolean {
  return (width * height) / shrink ** 2 > mostDecodedPixels
}

async function decode(
  decoder: NativeJpeg,
  bytes: Uint8Array,
  plan: JpegPlan,
  filter: number,
  options: ResolvedImageOptions,
): Promise<Buffer | null> {
  const { frame, columns, rows, left, top } = plan
  const stride = 3 * options.width
  const rgb = takePixels(stride * options.height)
  if (columns.count < options.width || rows.count < options.height)
    rgb.fill(Uint8Array.from(options.background, Math.round))
  const decoded = await decoder.decodeJpeg(bytes, rgb, frame, {
    columns,
    rows,
    filter,
    offset: top * stride + 3 * left,
    stride,
  })
  return decoded ? rgb : null
}

/** Regular files have fewer segments before their pixels. */
const mostSegments = 64

const startOfImage = 0xffd8
const startOfScan = 0xffda

/** The header of a plain JPEG. */
interface PlainJpeg extends ImageSize {
  readonly isGrey: boolean
}

/**
 * The header of a plain JPEG: baseline or progressive, 8 bits, grey or YCbCr, upright, without a colour
 * profile that counts. `null` for any other JPEG, and for invalid data.
 */
export function readPlainJpeg(bytes: Uint8Array, ignoreIcc = false): PlainJpeg | null {
  const header: Header = { hasExif: false, ignoreIcc }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.byteLength < 2 || view.getUint16(0) !== startOfImage) return null
  let at = 2
  for (let segment = 0; segment < mostSegments && at + 4 <= view.byteLength; segment++) {
    const marker = view.getUint16(at)
    const end = at + 2 + view.getUint16(at + 2)
    if (end < at + 4 || end > view.byteLength || !isPlain(marker, bytes.subarray(at + 4, end), header))
      return null
    if (marker === startOfScan) return header.frame!
    at = end
  }
  return null
}

interface Header {
  frame?: PlainJpeg
  hasExif: boolean
  readonly ignoreIcc: boolean
}

/** Whether a segment is one of a plain file. Stores what it contains in `header`. */
function isPlain(marker: number, data: Uint8Array, header: Header): boolean {
  switch (marker) {
    case 0xffc0: // baseline
    case 0xffc1: // baseline with more tables
    case 0xffc2: // progressive
      return readFrame(data, header)
    case 0xffc4: // Huffman tables
    case 0xffdb: // quantisation tables
    case 0xffdd: // restart interval
    case 0xfffe: // comment
      return true
    case startOfScan:
      return header.frame !== undefined
    case 0xffe1:
      return isUpright(data, header)
    case 0xffe2: // a colour profile, or further images
      return header.ignoreIcc && startsWith(data, 'ICC_PROFILE\0')
    case 0xffee:
      return !startsWith(data, 'Adobe') || data[11] === 1 // YCbCr
    default: // other application data; any other marker is not plain
      return marker >= 0xffe0 && marker <= 0xffef
  }
}

function readFrame(data: Uint8Array, header: Header): boolean {
  const components = data[5]
  if (header.frame !== undefined || data[0] !== 8 || (components !== 1 && components !== 3)) return false
  if (data.byteLength !== 6 + 3 * components || String.fromCharCode(data[6]!, data[9]!, data[12]!) === 'RGB')
    return false
  const height = (data[1]! << 8) + data[2]!
  const width = (data[3]! << 8) + data[4]!
  header.frame = { width, height, isGrey: components === 1 }
  return width > 0 && height > 0
}

function isUpright(data: Uint8Array, header: Header): boolean {
  if (!startsWith(data, 'Exif\0\0')) return true
  if (header.hasExif) return false
  header.hasExif = true
  return exifOrientation(data.subarray(6)) === 1
}

function startsWith(data: Uint8Array, text: string): boolean {
  return (
    Buffer.from(data.buffer, data.byteOffset, Math.min(text.length, data.byteLength)).toString('latin1') ===
    text
  )
}

const orientationTag = 0x0112
const shortType = 3
const entryBytes = 12

/**
 * The orientation in EXIF data (a TIFF file, without the prefix that marks it in an image): 1 for upright,
 * and if none is given; `undefined` for invalid data.
 */
export function exifOrientation(tiff: Uint8Array): number | undefined {
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength)
  if (view.byteLength < 8) return undefined
  const mark = view.getUint16(0)
  const littleEndian = mark === 0x4949
  if ((!littleEndian && mark !== 0x4d4d) || view.getUint16(2, littleEndian) !== 42) return undefined
  const directory = view.getUint32(4, littleEndian)
  if (directory + 2 > view.byteLength) return undefined
  const entries = view.getUint16(directory, littleEndian)
  if (directory + 2 + entries * entryBytes > view.byteLength) return undefined
  for (let at = directory + 2; at < directory + 2 + entries * entryBytes; at += entryBytes) {
    if (view.getUint16(at, littleEndian) !== orientationTag) continue
    const isOneShort =
      view.getUint16(at + 2, littleEndian) === shortType && view.getUint32(at + 4, littleEndian) === 1
    return isOneShort ? view.getUint16(at + 8, littleEndian) : undefined
  }
  return 1
}
