import type { Metadata, Sharp, SharpOptions } from 'sharp'
import type { ResizeAxis } from '../../native/native-binding.ts'
import { isHeic, type ResolvedImageOptions } from '../../options/image-options.ts'
import { dropKept, loadSharp, type SharpFactory } from './image-decoders.ts'
import { isLosslessJpeg, progressivePixels, shorterSideOf } from './image-kind.ts'
import { overLimit, readSource, undecodable, type CheckedSource } from './image-source.ts'
import { takePixels } from './pixels.ts'
import { decodePlainJpeg, isTinted } from './plain-jpeg.ts'
import { planEnlarging, scaledSize, type ImageSize, type ResizePlan } from './resize-plan.ts'

/** Ignores what libvips calls a warning (a stray chunk, an odd profile); damaged or truncated data fails. */
const reading: SharpOptions = { failOn: 'error', autoOrient: true, pages: 1 }

const heicHint =
  "it is HEIC, which sharp's own binaries do not decode: convert it, or have phones send JPEG. "

/** Decodes, orients, flattens and resizes. Returns the image in its final size, as 8-bit interleaved RGB. */
export async function decodeRgb(source: CheckedSource, options: ResolvedImageOptions): Promise<Buffer> {
  const sharp = await loadSharp()
  const bytes = await readSource(source, options)
  return (await decodePlainJpeg(bytes, options)) ?? decodeBySharp(sharp, source, bytes, options)
}

async function decodeBySharp(
  sharp: SharpFactory,
  source: CheckedSource,
  bytes: Uint8Array,
  options: ResolvedImageOptions,
): Promise<Buffer> {
  const { limitInputPixels, ignoreIcc, timeoutMs } = options
  const timeout = { seconds: secondsOf(timeoutMs) }
  try {
    const image = sharp(bytes, { ...reading, limitInputPixels, ignoreIcc }).timeout(timeout)
    const isWhole = isLosslessJpeg(bytes)
    const mayEnlarge = options.kernel !== 'nearest' && shorterSideOf(bytes) < longestSide(options)
    const header =
      isWhole || mayEnlarge || options.crop !== undefined || isTinted(options)
        ? await image.metadata()
        : undefined
    if (header !== undefined && isTinted(options) && isGrey(header)) image.pipelineColourspace('srgb')
    image.flatten({ background: backgroundOf(options) })
    const plan = mayEnlarge ? planEnlarging(header!.autoOrient, options) : null
    if (plan !== null) return await enlarge(sharp, image, header!.autoOrient, plan, options)
    // The whole image, so that it is decoded in full size before it is cropped: of a lossless JPEG sharp
    // would otherwise get only the upper left corner.
    if (isWhole) image.extract({ left: 0, top: 0, ...header!.autoOrient })
    resize(image, options, header)
    return await image.toColourspace('srgb').raw({ depth: 'uchar' }).toBuffer()
  } catch (error) {
    const reason = error as Error
    if (!/exceeds pixel limit/.test(reason.message))
      throw undecodable(source, reason, isHeic(bytes) ? heicHint : '')
    const received = await sharp(bytes, { ...reading, limitInputPixels: false })
      .metadata()
      .then(pixelsOf, () => 'more')
    throw overLimit(source, 'limitInputPixels', `at most ${limitInputPixels} pixels`, received, reason)
  } finally {
    dropKept(sharp, progressivePixels(bytes))
  }
}

/** An image with both sides at least this long is not enlarged. */
function longestSide({ width, height, crop }: ResolvedImageOptions): number {
  return crop === undefined ? Math.max(width, height) : crop.shorterSide
}

function pixelsOf({ width, height }: Metadata): string {
  return `${width * height} pixels (${width} x ${height})`
}

function isGrey({ space }: Metadata): boolean {
  return space === 'b-w' || space === 'grey16'
}

function backgroundOf({ background: [r = 0, g = 0, b = 0] }: ResolvedImageOptions): {
  r: number
  g: number
  b: number
} {
  return { r, g, b }
}

function resize(image: Sharp, options: ResolvedImageOptions, header: Metadata | undefined): void {
  const { width, height, fit, crop, kernel } = options
  if (crop === undefined || header === undefined) {
    image.resize({ width, height, fit, kernel, background: backgroundOf(options) })
    return
  }
  const scaled = scaledSize(header.autoOrient, crop)
  const [left, top] = [Math.round((scaled.width - width) / 2), Math.round((scaled.height - height) / 2)]
  image.resize({ ...scaled, fit: 'fill', kernel }).extract({ left, top, width, height })
}

/** Pixels on either side that interpolation reads. */
const margin = 2

/** Interleaved 8-bit RGB. */
interface Rgb extends ImageSize {
  readonly data: Buffer
}

/** The part of the source that is read in one dimension, and how it is resized. */
interface Direction {
  readonly from: number
  readonly length: number
  /** Length after the first resize. */
  readonly resized: number
  /** Number of copies of the first and of the last pixel added at the edges. */
  readonly beside: number
  /** Position of the centre of the result's first pixel in the padded source. */
  readonly start: number
  readonly enlargement: number
  readonly count: number
}

/**
 * Enlarges an image, in one direction or both. sharp's own resize shifts an enlarged image by half a result
 * pixel to the right and down, because libvips does not convert back to pixel centres. This uses sharp's
 * affine transformation with a corrected offset instead, on the visible part of the image, one direction
 * after the other.
 *
 * @param image upright, of the size of `source`, opaque, and without other pending operations.
 * @returns the image in its final size.
 */
async function enlarge(
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

/** Scales the image by these factors, from an offset on. */
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

/** The image placed in the result, with the background around it. */
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

/** sharp takes its timeout in seconds, at most an hour. */
function secondsOf(timeoutMs: number): number {
  return Math.min(3600, Math.ceil(timeoutMs / 1000))
}
