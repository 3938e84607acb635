import type { ResolvedImageOptions } from '../../options/image-options.ts'
import { resizeFilters, type NativeJpeg } from '../../native/native-binding.ts'
import { jpegDecoder } from './jpeg-decoder.ts'
import { readPlainJpeg, type PlainJpeg } from './jpeg-header.ts'
import { takePixels } from './pixel-buffers.ts'
import { planJpeg, type JpegPlan } from './resize-plan.ts'

/** Nothing ends the decoding of one image: larger ones are sharp's, which can stop between two strips. */
const mostPixels = 2 ** 24

/** All that is decoded of an image lies in memory at once, 3 bytes a pixel. */
const mostDecodedPixels = 2 ** 22

/**
 * Makes of a plain JPEG what sharp makes of it, in less time. `null` where there is nothing to do so with, and for every image that
 * needs more than that or is not quite as it should be: what sharp says of it counts.
 */
export async function decodePlainJpeg(
  bytes: Uint8Array,
  options: ResolvedImageOptions,
): Promise<Buffer | null> {
  const decoder = jpegDecoder()
  const filter = (resizeFilters as readonly string[]).indexOf(options.kernel)
  if (decoder === null || filter === -1) return null
  try {
    const plan = planOf(bytes, options)
    return plan === null ? null : await decode(decoder, bytes, plan, filter, options)
  } catch {
    return null // no memory, or the bytes are gone
  }
}

function planOf(bytes: Uint8Array, options: ResolvedImageOptions): JpegPlan | null {
  const jpeg = readPlainJpeg(bytes, options.ignoreIcc)
  if (jpeg === null || isOdd(jpeg, bytes, options)) return null
  // Beside a colour sharp makes a colour image of a grey one, and reads all of its pixels.
  if (jpeg.isGrey && isTinted(options)) return null
  const plan = planJpeg(jpeg, options)
  return plan === null || isTooLarge(plan) ? null : plan
}

/** sharp paints a background of any colour grey in a grey image, unless told to work in colour. */
export function isTinted({ background: [red, green, blue] }: ResolvedImageOptions): boolean {
  return red !== green || green !== blue
}

/** A file that is longer than its pixels was not made to be small. */
function isOdd(
  { width, height }: PlainJpeg,
  bytes: Uint8Array,
  { limitInputPixels }: ResolvedImageOptions,
): boolean {
  const pixels = width * height
  return pixels > Math.min(limitInputPixels, mostPixels) || bytes.byteLength > 3 * pixels
}

function isTooLarge({ frame: { width, height, shrink } }: JpegPlan): boolean {
  return (width * height) / shrink ** 2 > mostDecodedPixels
}

async function decode(
  decoder: NativeJpeg,
  bytes: Uint8Array,
  plan: JpegPlan,
  filter: number,
  options: ResolvedImageOptions,
): Promise<Buffer | null> {
  const { frame, columns, rows, left, top } = plan
  const stride = 3 * options.width
  const rgb = takePixels(stride * options.height)
  if (columns.count < options.width || rows.count < options.height)
    rgb.fill(Uint8Array.from(options.background, Math.round))
  const decoded = await decoder.decodeJpeg(bytes, rgb, frame, {
    columns,
    rows,
    filter,
    offset: top * stride + 3 * left,
    stride,
  })
  return decoded ? rgb : null
}
