const orientationTag = 0x0112
const shortType = 3
const entryBytes = 12

/**
 * Which way up an image is by its EXIF data (a TIFF file, without what names it in the image): 1 as it is, also where nothing
 * is said; `undefined` for data that are not made as they should be.
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
