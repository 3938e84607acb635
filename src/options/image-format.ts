/** Formats that can be let in by `formats`, by the names that sharp has for them. `heif` is AVIF and, where libvips has it, HEIC. */
export const imageFormats = ['jpeg', 'png', 'webp', 'gif', 'tiff', 'heif', 'svg'] as const

/** The name of such a format. */
export type ImageFormat = (typeof imageFormats)[number]

/** All but SVG, which is a program rather than pixels: a few kilobytes may draw for minutes. */
export const defaultFormats: readonly ImageFormat[] = imageFormats.filter((format) => format !== 'svg')

/** How far libvips looks for `<svg`. */
const svgWithinBytes = 1000

/** A file type box of more bytes is none to libvips either, and might be the beginning of something else. */
const largestFileTypeBox = 2048

/** Whether it is HEIC, as phones make it, which sharp's own binaries do not decode. */
export function isHeic(bytes: Uint8Array): boolean {
  return (
    Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 12)).toString('latin1', 4, 10) ===
    'ftyphe'
  )
}

/**
 * The format that the first bytes of an image tell; `undefined` for any other. Nothing that gets one of the other names can
 * be taken for SVG, whose text starts with `<` or is compressed by gzip.
 */
export function formatOf(bytes: Uint8Array): ImageFormat | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, svgWithinBytes))
  const starts = (text: string, offset = 0): boolean =>
    head.toString('latin1', offset, offset + text.length) === text
  if (starts('\xff\xd8\xff')) return 'jpeg'
  if (starts('\x89PNG\r\n\x1a\n')) return 'png'
  if (starts('GIF8')) return 'gif'
  if (starts('RIFF') && starts('WEBP', 8)) return 'webp'
  if (['II*\0', 'MM\0*', 'II+\0', 'MM\0+'].some((mark) => starts(mark))) return 'tiff'
  if (starts('ftyp', 4) && head.byteLength >= 12 && head.readUInt32BE(0) <= largestFileTypeBox) return 'heif'
  return starts('\x1f\x8b') || head.includes('<svg', 0, 'latin1') ? 'svg' : undefined
}
