import { formatOf, type ImageFormat } from '../../options/image-options.ts'

/** The decoding cost of an image, as far as its first bytes show it. */
export interface ImageKind {
  /** Images of one name take the same time per pixel. The name has the format and, for JPEG, the coding. */
  readonly name: string
  /** Width times height, or the number of bytes if the size is not easily found. */
  readonly size: number
}

/** Most segments to read in search of a JPEG's size; regular JPEGs have fewer before it. */
const mostSegments = 64

/** The kind and size of an image of a known format. Its bytes may be damaged. */
export function imageKind(bytes: Uint8Array, format: ImageFormat): ImageKind {
  const header = headerOf(bytes, format)
  const size = header === null ? 0 : header.width * header.height
  return size > 0 ? { name: header!.name, size } : { name: `${format} by bytes`, size: bytes.byteLength }
}

/** Length of an image's shorter side in pixels; 0 if it is not easily found. */
export function shorterSideOf(bytes: Uint8Array): number {
  const format = formatOf(bytes)
  const header = format === undefined ? null : headerOf(bytes, format)
  return header === null ? 0 : Math.min(header.width, header.height)
}

/** JPEGs that libjpeg holds in memory as a whole while it decodes them. */
const progressiveFrames: readonly string[] = ['jpeg ffc2', 'jpeg ffc6', 'jpeg ffca', 'jpeg ffce']

/** Width times height of a progressive JPEG; 0 for every other image. */
export function progressivePixels(bytes: Uint8Array): number {
  const header = formatOf(bytes) === 'jpeg' ? headerOf(bytes, 'jpeg') : null
  return header !== null && progressiveFrames.includes(header.name) ? header.width * header.height : 0
}

interface Header {
  readonly name: string
  readonly width: number
  readonly height: number
}

function headerOf(bytes: Uint8Array, format: ImageFormat): Header | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    return format === 'jpeg' ? jpegHeader(view) : sizedHeader(format, view)
  } catch {
    return null // truncated before its size: decoding reports it
  }
}

/**
 * Whether an image is a lossless JPEG. libjpeg decodes those in full size only; a smaller decode is just a
 * corner of the image.
 */
export function isLosslessJpeg(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    const at = view.getUint16(0) === 0xffd8 ? frameOf(view) : -1
    return at !== -1 && losslessFrames.includes(view.getUint16(at))
  } catch {
    return false // truncated: decoding reports it
  }
}

const losslessFrames: readonly number[] = [0xffc3, 0xffc7, 0xffcb, 0xffcf]

function jpegHeader(view: DataView): Header | null {
  const at = frameOf(view)
  return at === -1
    ? null
    : {
        name: `jpeg ${view.getUint16(at).toString(16)}`,
        height: view.getUint16(at + 5),
        width: view.getUint16(at + 7),
      }
}

/** Offset of a JPEG's frame header, which has its size and coding; -1 if it is not near the beginning. */
function frameOf(view: DataView): number {
  for (let segment = 0, at = 2; segment < mostSegments; segment++) {
    if (isFrame(view.getUint16(at))) return at
    at += 2 + view.getUint16(at + 2)
  }
  return -1
}

/** Whether a marker starts a frame, in any of JPEG's codings. */
function isFrame(marker: number): boolean {
  return marker >= 0xffc0 && marker <= 0xffcf && marker !== 0xffc4 && marker !== 0xffc8 && marker !== 0xffcc
}

function sizedHeader(format: ImageFormat, view: DataView): Header | null {
  if (format === 'png') return { name: format, width: view.getUint32(16), height: view.getUint32(20) }
  if (format === 'gif')
    return { name: format, width: view.getUint16(6, true), height: view.getUint16(8, true) }
  if (format !== 'webp') return null
  const chunk = view.getUint32(12)
  if (chunk === 0x56503820)
    return {
      name: 'webp lossy',
      width: view.getUint16(26, true) & 0x3fff,
      height: view.getUint16(28, true) & 0x3fff,
    }
  if (chunk === 0x56503858)
    return { name: 'webp extended', width: 1 + uint24(view, 24), height: 1 + uint24(view, 27) }
  const bits = view.getUint32(21, true)
  return { name: 'webp lossless', width: 1 + (bits & 0x3fff), height: 1 + ((bits >> 14) & 0x3fff) }
}

function uint24(view: DataView, at: number): number {
  return view.getUint16(at, true) + (view.getUint8(at + 2) << 16)
}
