import { formatOf, type ImageFormat } from '../../options/image-options.ts'

/** What an image costs to decode, as far as its first bytes tell. */
export interface ImageKind {
  /** Images of one name take alike per pixel: the format, and of a JPEG how it was coded. */
  readonly name: string
  /** Width times height, or the number of bytes where that is not easily told. */
  readonly size: number
}

/** More stand before the size of no JPEG that was made to be looked at. */
const mostSegments = 64

/** How many pixels an image has, of a kind that takes how long for each. The bytes are of the format; nothing else of them is sure. */
export function imageKind(bytes: Uint8Array, format: ImageFormat): ImageKind {
  const header = headerOf(bytes, format)
  const size = header === null ? 0 : header.width * header.height
  return size > 0 ? { name: header!.name, size } : { name: `${format} by bytes`, size: bytes.byteLength }
}

/** Length of the shorter side of an image in pixels; 0 where that is not easily told. */
export function shorterSideOf(bytes: Uint8Array): number {
  const format = formatOf(bytes)
  const header = format === undefined ? null : headerOf(bytes, format)
  return header === null ? 0 : Math.min(header.width, header.height)
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
    return null // it ends before its size: decoding will tell
  }
}

/** Whether an image is a JPEG without loss, which libjpeg decodes in its own size alone, and of which a smaller one is a corner. */
export function isLosslessJpeg(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    const at = view.getUint16(0) === 0xffd8 ? frameOf(view) : -1
    return at !== -1 && losslessFrames.includes(view.getUint16(at))
  } catch {
    return false // it ends before that: decoding will tell
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

/** Where a JPEG's frame begins, which tells its size and coding; -1 for nowhere near. */
function frameOf(view: DataView): number {
  for (let segment = 0, at = 2; segment < mostSegments; segment++) {
    if (isFrame(view.getUint16(at))) return at
    at += 2 + view.getUint16(at + 2)
  }
  return -1
}

/** Start of frame, in one of the codings that JPEG has. */
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
