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

function jpegKind(view: DataView): ImageKind | null {
  let at = 2
  for (let segment = 0; segment < mostSegments; segment++) {
    const marker = view.getUint16(at)
    if (isFrame(marker)) return { name: `jpeg ${marker.toString(16)}`, size: view.getUint16(at + 5) * view.getUint16(at + 7) }
    at += 2 + view.getUint16(at + 2)
  }
  return null
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
