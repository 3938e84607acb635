import type { ImageFormat } from '../config/image-format.ts'

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
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    const kind = format === 'jpeg' ? jpegKind(view) : sized(format, view)
    if (kind !== null && kind.size > 0) return kind
  } catch {
    // It ends before its size: decoding will tell.
  }
  return { name: `${format} by bytes`, size: bytes.byteLength }
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

function jpegKind(view: DataView): ImageKind | null {
  const at = frameOf(view)
  return at === -1 ? null : { name: `jpeg ${view.getUint16(at).toString(16)}`, size: view.getUint16(at + 5) * view.getUint16(at + 7) }
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

function sized(format: ImageFormat, view: DataView): ImageKind | null {
  if (format === 'png') return { name: format, size: view.getUint32(16) * view.getUint32(20) }
  if (format === 'gif') return { name: format, size: view.getUint16(6, true) * view.getUint16(8, true) }
  if (format !== 'webp') return null
  const chunk = view.getUint32(12)
  if (chunk === 0x56503820) return { name: 'webp lossy', size: (view.getUint16(26, true) & 0x3fff) * (view.getUint16(28, true) & 0x3fff) }
  if (chunk === 0x56503858) return { name: 'webp extended', size: (1 + uint24(view, 24)) * (1 + uint24(view, 27)) }
  const bits = view.getUint32(21, true)
  return { name: 'webp lossless', size: (1 + (bits & 0x3fff)) * (1 + ((bits >> 14) & 0x3fff)) }
}

function uint24(view: DataView, at: number): number {
  return view.getUint16(at, true) + (view.getUint8(at + 2) << 16)
}
