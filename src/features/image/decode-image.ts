import { Tensor, type TypedTensor } from 'onnxruntime-common'
import { describe, invalidArgument, type InferenceError } from '../../errors.ts'
import {
  dimsOf,
  resolveImageOptions,
  type ImageDataType,
  type ImageFormat,
  type ImageOptions,
  type ResolvedImageOptions,
} from '../../options/image-options.ts'
import { readOptions, typed } from '../../options/plain-options.ts'
import { inTurn } from './decode-queue.ts'
import { checkSource, overLimit, type CheckedSource, type ImageSource } from './image-source.ts'
import { hasPixelRows, pixelRows, type PixelRows } from './pixel-rows.ts'
import { ARRAY_OF, reusePixels, writePixels, type PixelArray } from './pixels.ts'
import { loadSharp, type SharpFactory } from './image-decoders.ts'
import { decodeRgb } from './rgb-pipeline.ts'

/** Where {@link decodeImage} writes, instead of returning a tensor; for example one row of a batch. */
export type ImageTarget = ArrayTarget | LeaseTarget

/** A part of an array. */
export interface ArrayTarget {
  /** An array of the element type of `dtype`. It may be a view of a `SharedArrayBuffer`. */
  into: PixelArray
  /** First element to write. Default 0. */
  offset?: number
}

/** A row of a lease (`model.lease()`): the pixels are normalised directly into the model's input memory. */
export interface LeaseTarget {
  /** Its input must have the element type of `dtype`, and rows with the image's dims. */
  into: PixelRows
  /** Name of the input. Default: the only one. */
  input?: string
  /** Index of the row. Default 0. */
  row?: number
}

/**
 * Decodes an image into the input of a model: oriented as its EXIF data say, without transparency, resized, and
 * normalised as `options` say. Reads JPEG, PNG, WebP, GIF, TIFF and AVIF (and SVG if `formats` names it), in grey, CMYK,
 * palette or 16 bits (colours go to 8-bit sRGB by the embedded profile if there is one); of an animation the first frame.
 * At most {@link imageConcurrency} images are decoded at once, and none that is over the {@link ImageLimits}.
 *
 * @returns the tensor, of type `dtype` and dims [1, C, height, width] or [1, height, width, C]; nothing if `target` is given
 * @throws `ERR_INVALID_ARG` for an argument or option that is wrong; `ERR_IMAGE_DECODE` for a file or bytes that are
 * missing, empty, damaged or no image, for what is no regular file, and for what is over a limit, whose name is `argument`;
 * `ERR_NATIVE_LOAD` if sharp is not installed or its binary cannot be loaded (all as rejections). Once `signal` has fired,
 * its reason.
 * @example
 * const image = await decodeImage('cat.jpg', { width: 224, height: 224, scale: 1 / 255 })
 * const batch = new Float32Array(8 * 3 * 224 * 224)
 * await decodeImage('dog.jpg', { width: 224, height: 224 }, { into: batch, offset: 3 * 224 * 224 })
 * const lease = model.lease()
 * await decodeImage('bird.jpg', { width: 224, height: 224 }, { into: lease })
 * const outputs = await lease.infer()
 */
export function decodeImage<Type extends ImageDataType = 'float32'>(
  source: ImageSource,
  options: ImageOptions<Type>,
): Promise<TypedTensor<Type>>
export function decodeImage(source: ImageSource, options: ImageOptions, target: ImageTarget): Promise<void>
export async function decodeImage(
  source: ImageSource,
  options: ImageOptions,
  target?: ImageTarget,
): Promise<Tensor | void> {
  const checked = checkSource(source)
  const resolved = resolveImageOptions(options)
  const row = target === undefined ? null : rowOf(target, resolved)
  row?.check()
  const rgb = await decodePixels(checked, resolved)
  if (row !== null) {
    // Looked up again: the memory may have been transferred during decoding.
    row.write((elements) => writePixels(rgb, elements, resolved))
    reusePixels(rgb)
    return
  }
  const data = newRow(resolved)
  writePixels(rgb, data, resolved)
  reusePixels(rgb)
  return new Tensor(resolved.dtype, data, dimsOf(resolved))
}

/** The image in its final size, as 8-bit interleaved RGB. Rejects as {@link decodeImage}. */
function decodePixels(source: CheckedSource, options: ResolvedImageOptions): Promise<Buffer> {
  const { signal, timeoutMs } = options
  return inTurn(() => decodeRgb(source, options), {
    signal,
    timeoutMs,
    timedOut: () => tookTooLong(source, options),
  })
}

/** The error for an image that takes longer than its `timeoutMs`. */
export function tookTooLong(source: CheckedSource, { timeoutMs }: ResolvedImageOptions): InferenceError {
  return overLimit(
    source,
    'timeoutMs',
    `at most ${timeoutMs} ms of reading and decoding`,
    'one that takes longer',
  )
}

export function newRow(options: ResolvedImageOptions): PixelArray {
  const elements = elementsOf(options)
  try {
    return new ARRAY_OF[options.dtype](elements)
  } catch (cause) {
    throw invalidArgument(
      'width',
      `a result that fits into memory: ${elements} elements of ${options.dtype}`,
      options.width,
      { cause },
    )
  }
}

function elementsOf({ channelCount, height, width }: ResolvedImageOptions): number {
  return channelCount * height * width
}

/** The destination of an image. */
interface Row {
  check(): void
  write(write: (elements: PixelArray) => void): void
}

function rowOf(target: ImageTarget, options: ResolvedImageOptions): Row {
  const { into, offset, input, row = 0 } = readOptions('target', target, ['into', 'offset', 'input', 'row'])
  try {
    if (!hasPixelRows(into)) {
      const elements = () => arrayOf(into, offset ?? 0, options)
      return { check: elements, write: (write) => write(elements()) }
    }
    if (offset !== undefined)
      throw invalidArgument('offset', 'to be omitted for a lease, which has rows', offset)
    const rows = into[pixelRows]
    const image = { dtype: options.dtype, dims: dimsOf(options).slice(1) }
    return {
      check: () => rows.check(input, row, image),
      write: (write) => rows.write(input, row, image, write),
    }
  } catch (error) {
    throw typed('target.into', error)
  }
}

function arrayOf(into: unknown, offset: unknown, options: ResolvedImageOptions): PixelArray {
  try {
    return view(into, offset, options)
  } catch (error) {
    throw typed('target.into', error)
  }
}

function view(into: unknown, offset: unknown, options: ResolvedImageOptions): PixelArray {
  const kind = ARRAY_OF[options.dtype]
  const isFloat16 =
    options.dtype === 'float16' && Object.prototype.toString.call(into) === '[object Float16Array]'
  if (!(into instanceof kind || isFloat16)) {
    throw invalidArgument('into', `a ${kind.name}, as dtype is ${options.dtype}`, into)
  }
  const { buffer, byteOffset, length, BYTES_PER_ELEMENT } = into as PixelArray
  const needed = elementsOf(options)
  if (!Number.isInteger(offset) || (offset as number) < 0 || (offset as number) + needed > length) {
    throw invalidArgument(
      'offset',
      `room for ${needed} elements in ${describe(into)} from an element on`,
      offset,
    )
  }
  return new kind(buffer, byteOffset + (offset as number) * BYTES_PER_ELEMENT, needed)
}

/** JPEG goes through libjpeg-turbo, if installed; PNG through sharp. */
const warmedFormats = ['jpeg', 'png'] as const satisfies readonly ImageFormat[]
/** The first round is ten times as slow as the second, which is twice as slow as the third. */
const rounds = 3

/**
 * Decodes sample images with these options, so that no request has to wait for libraries to be loaded.
 *
 * @throws InferenceError `ERR_NATIVE_LOAD` if sharp cannot be loaded.
 */
export async function warmDecoder(images: Iterable<ResolvedImageOptions>): Promise<void> {
  const sharp = await loadSharp()
  for (const options of images)
    for (const format of warmedFormats)
      if (options.formats.includes(format)) await decodeSample(sharp, format, options)
}

async function decodeSample(
  sharp: SharpFactory,
  format: (typeof warmedFormats)[number],
  options: ResolvedImageOptions,
): Promise<void> {
  try {
    const sample = await sharp({
      create: { width: 320, height: 240, channels: 3, background: { r: 120, g: 60, b: 30 } },
    })
      .toFormat(format)
      .toBuffer()
    for (let round = 0; round < rounds; round++) {
      const rgb = await decodeRgb(sample, options) // not in the queue: requests cannot delay a load
      writePixels(rgb, newRow(options), options)
      reusePixels(rgb)
    }
  } catch {
    // For example over one of the limits: requests will report it.
  }
}
