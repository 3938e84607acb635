import { Tensor } from 'onnxruntime-common'
import { describe } from '../describe.ts'
import { invalidArgument } from '../errors.ts'
import { inTurn } from './decode-queue.ts'
import { checkNames, dimsOf, resolveImageOptions } from './image-options.ts'
import type { ImageOptions, ResolvedImageOptions } from './image-options.ts'
import { checkSource } from './image-source.ts'
import type { ImageSource } from './image-source.ts'
import { ARRAY_OF, writePixels } from './pixels.ts'
import type { PixelArray } from './pixels.ts'
import { decodeRgb } from './rgb-pipeline.ts'

/** Where {@link decodeImage} writes instead of making a tensor, for instance one row of a batch. */
export interface ImageTarget {
  /** An array of the element type that `dtype` says; it may be a view of a `SharedArrayBuffer`. */
  into: PixelArray
  /** First element to write. Default 0. */
  offset?: number
}

/**
 * Decodes an image into the input of a model: oriented as its EXIF data say, without transparency, resized, and
 * normalised as `options` say. Reads what sharp reads (JPEG, PNG, WebP, GIF, TIFF, AVIF, SVG, in grey, CMYK, palette or
 * 16 bits; colours go to 8-bit sRGB by the embedded profile if there is one); of an animation the first frame.
 * At most {@link imageConcurrency} images are decoded at once.
 *
 * @returns the tensor, of dims [1, C, height, width] or [1, height, width, C]; nothing if `target` is given
 * @throws `ERR_INVALID_ARG` for an argument or option that is wrong, `ERR_IMAGE_DECODE` for a file or bytes that are
 * missing, empty, damaged or no image, `ERR_NATIVE_LOAD` if sharp's binary cannot be loaded (all as rejections)
 * @example
 * const image = await decodeImage('cat.jpg', { width: 224, height: 224, scale: 1 / 255 })
 * const batch = new Float32Array(8 * 3 * 224 * 224)
 * await decodeImage('dog.jpg', { width: 224, height: 224 }, { into: batch, offset: 3 * 224 * 224 })
 */
export function decodeImage(source: ImageSource, options: ImageOptions): Promise<Tensor>
export function decodeImage(source: ImageSource, options: ImageOptions, target: ImageTarget): Promise<void>
export async function decodeImage(source: ImageSource, options: ImageOptions, target?: ImageTarget): Promise<Tensor | void> {
  checkSource(source)
  const resolved = resolveImageOptions(options)
  if (target !== undefined) rowOf(target, resolved)
  const rgb = await inTurn(() => decodeRgb(source, resolved))
  if (target !== undefined) {
    // Looked at again: the memory may have been given away while the image was decoded.
    writePixels(rgb, rowOf(target, resolved), resolved)
    return
  }
  const dims = dimsOf(resolved)
  const data = new ARRAY_OF[resolved.dtype](elementsOf(resolved))
  writePixels(rgb, data, resolved)
  return new Tensor(resolved.dtype, data, dims)
}

function elementsOf({ channelCount, height, width }: ResolvedImageOptions): number {
  return channelCount * height * width
}

function rowOf(target: ImageTarget, options: ResolvedImageOptions): PixelArray {
  checkNames('target', target, ['into', 'offset'])
  const { into, offset = 0 } = target
  const kind = ARRAY_OF[options.dtype]
  const isFloat16 = options.dtype === 'float16' && Object.prototype.toString.call(into) === '[object Float16Array]'
  if (!(into instanceof kind || isFloat16)) {
    throw invalidArgument('into', `a ${kind.name}, as dtype is ${options.dtype}`, into)
  }
  const needed = elementsOf(options)
  if (!Number.isInteger(offset) || offset < 0 || offset + needed > into.length) {
    throw invalidArgument('offset', `room for ${needed} elements in ${describe(into)} from an element on`, offset)
  }
  const bytesPerElement = into.BYTES_PER_ELEMENT
  return isFloat16
    ? new Uint16Array(into.buffer, into.byteOffset + offset * bytesPerElement, needed)
    : into.subarray(offset, offset + needed)
}
