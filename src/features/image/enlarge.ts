import type { Sharp } from 'sharp'
import type { ResolvedImageOptions } from '../../options/image-options.ts'
import type { ResizeAxis } from '../../native/native-binding.ts'
import { takePixels } from './pixel-buffers.ts'
import type { ImageSize, ResizePlan } from './resize-plan.ts'
import type { SharpFactory } from './sharp-loader.ts'

/** Pixels on either side of a place that have a part in what is interpolated there. */
const margin = 2

/** Interleaved 8-bit RGB. */
interface Rgb extends ImageSize {
  readonly data: Buffer
}

/** What is read of one dimension of the source, and what becomes of it. */
interface Direction {
  readonly from: number
  readonly length: number
  /** The length that a resize makes of it first. */
  readonly resized: number
  /** Copies of the first and last pixel that are put beside it. */
  readonly beside: number
  /** Where in all that the middle of the first pixel of the result lies. */
  readonly start: number
  readonly enlargement: number
  readonly count: number
}

/**
 * Enlarges an image, in one direction or both. A resize of sharp puts what it enlarges half a pixel of the result too far right and down:
 * libvips leaves out the way back to the middle of a pixel. So its affine transformation is used instead, which can be told that, on the
 * part of the image that is seen, one direction after the other.
 *
 * @param image turned the right way up, of the size of `source`, and opaque; nothing else was asked of it.
 * @returns the image in its final size.
 */
export async function enlarge(
  sharp: SharpFactory,
  image: Sharp,
  source: ImageSize,
  plan: ResizePlan,
  options: ResolvedImageOptions,
): Promise<Buffer> {
  const columns = directionOf(plan.columns, source.width)
  const rows = directionOf(plan.rows, source.height)
  image.extract({ left: columns.from, top: rows.from, width: columns.length, height: rows.length })
  if (columns.resized !== columns.length || rows.resized !== rows.length)
    image.resize({ width: columns.resized, height: rows.resized, fit: 'fill', kernel: options.kernel })
  image.extend({
    left: columns.beside,
    right: columns.beside,
    top: rows.beside,
    bottom: rows.beside,
    extendWith: 'copy',
  })
  const data = await image.toColourspace('srgb').raw({ depth: 'uchar' }).toBuffer()
  const decoded = {
    data,
    width: columns.resized + 2 * columns.beside,
    height: rows.resized + 2 * rows.beside,
  }
  const wide = await stretch(sharp, decoded, [columns.enlargement, 1], columns.start, options)
  const { data: pixels } = await stretch(
    sharp,
    cutColumns(wide, columns.count),
    [1, rows.enlargement],
    rows.start,
    options,
  )
  return framed({ data: pixels, width: columns.count, height: rows.count }, plan, options)
}

function directionOf({ shrink, start, count }: ResizeAxis, length: number): Direction {
  if (shrink > 1) return { from: 0, length, resized: count, beside: 0, start: 0, enlargement: 1, count }
  const beside = shrink < 1 ? margin : 0
  const from = Math.max(0, Math.floor(start) - beside)
  const to = Math.min(length, Math.floor(start + (count - 1) * shrink) + beside + 1)
  return {
    from,
    length: to - from,
    resized: to - from,
    beside,
    start: start - from + beside,
    enlargement: 1 / shrink,
    count,
  }
}

/** So many times as wide, and as high, from a place on. */
async function stretch(
  sharp: SharpFactory,
  { data, width, height }: Rgb,
  [across, down]: readonly [number, number],
  start: number,
  { kernel, timeoutMs }: ResolvedImageOptions,
): Promise<Rgb> {
  if (across === 1 && down === 1) return { data, width, height }
  const shift = across === 1 ? { idy: -start } : { idx: -start }
  const made = await sharp(data, { raw: { width, height, channels: 3 }, limitInputPixels: false })
    .timeout({ seconds: secondsOf(timeoutMs) })
    .affine([across, 0, 0, down], { ...shift, interpolator: kernel === 'linear' ? 'bilinear' : 'bicubic' })
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
  return { data: made.data, width: made.info.width, height: made.info.height }
}

function cutColumns({ data, width, height }: Rgb, count: number): Rgb {
  if (width === count) return { data, width, height }
  const cut = Buffer.allocUnsafeSlow(3 * count * height)
  for (let row = 0; row < height; row++)
    data.copy(cut, 3 * row * count, 3 * row * width, 3 * (row * width + count))
  return { data: cut, width: count, height }
}

/** The image in its place of the result, beside which the background is seen. */
function framed(
  { data, width, height }: Rgb,
  { left, top }: ResizePlan,
  options: ResolvedImageOptions,
): Buffer {
  const result = takePixels(3 * options.width * options.height)
  if (width < options.width || height < options.height)
    result.fill(Uint8Array.from(options.background, Math.round))
  for (let row = 0; row < height; row++)
    data.copy(result, 3 * ((top + row) * options.width + left), 3 * row * width, 3 * (row + 1) * width)
  return result
}

/** sharp counts its time in seconds, an hour at most. */
export function secondsOf(timeoutMs: number): number {
  return Math.min(3600, Math.ceil(timeoutMs / 1000))
}
