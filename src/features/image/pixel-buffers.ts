/** Most bytes that are kept: those of 27 images of 224 x 224 at once, or one of 1182 x 1182. */
const mostBytes = 4 * 2 ** 20
/** Most of them: each is looked at to find one of the right size, and small ones weigh more than their bytes. */
const mostKept = 64

const spare: Buffer[] = []
/** Those in somebody's hands. sharp's pixels are none: nothing is written there again. */
const taken = new WeakSet<Buffer>()
let spareBytes = 0

/**
 * Memory for the pixels of an image, which are written elsewhere as soon as they are there: made anew for each, they would be the garbage
 * that has V8 collect its heap most often. What lies there is of an earlier image, and all of it is to be written.
 */
export function takePixels(byteLength: number): Buffer {
  const at = spare.findLastIndex((pixels) => pixels.byteLength === byteLength)
  const pixels = at === -1 ? Buffer.allocUnsafeSlow(byteLength) : spare.splice(at, 1)[0]!
  if (at !== -1) spareBytes -= byteLength
  taken.add(pixels)
  return pixels
}

/** Pixels that were written elsewhere, and that nobody has any more; not for those of an image that failed, which may be written still. */
export function reusePixels(pixels: Buffer): void {
  if (!taken.delete(pixels) || pixels.byteLength > mostBytes) return
  spareBytes += pixels.byteLength
  spare.push(pixels)
  while (spareBytes > mostBytes || spare.length > mostKept) spareBytes -= spare.shift()!.byteLength
}
