/** Most bytes that are kept: those of 27 images of 224 x 224 at once, or one of 1182 x 1182. */
const mostBytes = 4 * 2 ** 20

const spare: Buffer[] = []
let spareBytes = 0

/**
 * Memory for the pixels of an image, which are written elsewhere as soon as they are there: made anew for each, they would be the garbage
 * that has V8 collect its heap most often. What lies there is of an earlier image, and all of it is to be written.
 */
export function takePixels(byteLength: number): Buffer {
  const at = spare.findLastIndex((pixels) => pixels.byteLength === byteLength)
  if (at === -1) return Buffer.allocUnsafeSlow(byteLength)
  spareBytes -= byteLength
  return spare.splice(at, 1)[0]!
}

/** Pixels that were written elsewhere, and that nobody has any more: to be called once, and not for those of an image that failed. */
export function reusePixels(pixels: Buffer): void {
  if (pixels.byteLength > mostBytes) return
  spareBytes += pixels.byteLength
  spare.push(pixels)
  while (spareBytes > mostBytes) spareBytes -= spare.shift()!.byteLength
}
