import { exifOrientation } from './exif-orientation.ts'
import type { ImageSize } from './resize-plan.ts'

/** More stand before the pixels of no file that was made to be looked at. */
const mostSegments = 64

const startOfImage = 0xffd8
const startOfScan = 0xffda

/** What the header of a plain JPEG tells. */
export interface PlainJpeg extends ImageSize {
  readonly isGrey: boolean
}

/**
 * The size of a JPEG that means what it says without more ado: baseline or progressive, 8 bits, grey or YCbCr, the right
 * way up, without a colour profile that counts. `null` for any other, and for what is no JPEG or not made as it should be.
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

/** Whether a segment is such as plain files have; notes what it tells. */
function isPlain(marker: number, data: Uint8Array, header: Header): boolean {
  switch (marker) {
    case 0xffc0: // baseline
    case 0xffc1: // the same with more tables
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
    default: // what else applications have to say; no other marker
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
