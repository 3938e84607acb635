import type { Metadata, Sharp, SharpOptions } from 'sharp'
import { isHeic } from '../../options/image-format.ts'
import type { ResolvedImageOptions } from '../../options/image-options.ts'
import { overLimit, readSource, undecodable } from './image-source.ts'
import type { CheckedSource } from './image-source.ts'
import { decodePlainJpeg, isTinted } from './plain-jpeg.ts'
import { enlarge, secondsOf } from './enlarge.ts'
import { isLosslessJpeg, shorterSideOf } from './image-kind.ts'
import { planEnlarging, scaledSize } from './resize-plan.ts'
import { loadSharp } from './sharp-loader.ts'
import type { SharpFactory } from './sharp-loader.ts'

/** What libvips calls a warning (a stray chunk, an odd profile) passes; damaged or truncated data does not. */
const reading: SharpOptions = { failOn: 'error', autoOrient: true, pages: 1 }

const heicHint =
  "it is HEIC, which sharp's own binaries do not decode: convert it, or have phones send JPEG. "

/** Decodes, orients, flattens and resizes; gives the image in its final size as 8-bit interleaved RGB. */
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
    // What is cut before it is resized is decoded in its own size: of a lossless JPEG sharp gets the upper left corner otherwise.
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
  }
}

/** An image whose sides are all as long as that is not enlarged. */
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
