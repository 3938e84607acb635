import { InferenceError, invalidArgument, invalidConfig } from '../errors.ts'
import { durationShown, isAbortSignal, isDuration, readOptions, typed } from './plain-options.ts'
import { batchAxisOf, shownShape, type ValueMetadata } from '../tensor/metadata.ts'

/** Formats that `formats` may allow, by sharp's names. `heif` is AVIF and, where libvips supports it, HEIC. */
export const imageFormats = ['jpeg', 'png', 'webp', 'gif', 'tiff', 'heif', 'svg'] as const

/** The name of an image format. */
export type ImageFormat = (typeof imageFormats)[number]

/** All formats except SVG: SVG is a program rather than pixels, and a few kilobytes may take minutes to draw. */
const defaultFormats: readonly ImageFormat[] = imageFormats.filter((format) => format !== 'svg')

/** Number of bytes in which libvips looks for `<svg`. */
const svgWithinBytes = 1000

/** libvips also rejects a larger file type box; the bytes might be the start of another format. */
const largestFileTypeBox = 2048

/** Whether it is HEIC, the format of phone cameras, which sharp's prebuilt binaries do not decode. */
export function isHeic(bytes: Uint8Array): boolean {
  return (
    Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 12)).toString('latin1', 4, 10) ===
    'ftyphe'
  )
}

/**
 * The format by the first bytes of an image; `undefined` if unknown. Bytes that match another format cannot be taken
 * for SVG, whose text starts with `<` or is gzip-compressed.
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

/**
 * Limits on untrusted images. An image over a limit rejects with `ERR_IMAGE_DECODE`, whose `argument` names the limit.
 */
export interface ImageLimits {
  /**
   * Most pixels (width times height) in the image header, for the one frame that is decoded; the sharp option of that
   * name. Decoding takes 8 bytes a pixel for an interlaced PNG, 2 to 6 for a progressive JPEG, about 17 for AVIF.
   * Default 64 000 000.
   */
  limitInputPixels?: number | undefined
  /** Most bytes of the encoded image, from a file or from memory. A larger file is not read. Default 128 MiB. */
  limitInputBytes?: number | undefined
  /**
   * Allowed formats, detected from the first bytes before anything is decoded. Default: all but SVG (`jpeg`, `png`,
   * `webp`, `gif`, `tiff`, `heif`). PDF, camera raw files and ImageMagick formats are never allowed.
   */
  formats?: readonly ImageFormat[] | undefined
  /**
   * Milliseconds that reading and decoding may take, counted from the image's turn (see {@link imageConcurrency}). Then
   * the call rejects. libvips has a resolution of one second and stops only between two strips of the image;
   * libjpeg-turbo, which never gets an image over 2^24 pixels, does not stop before it is done. Until the decoder
   * stops, the image counts as one that is being decoded. Default 30 000.
   */
  timeoutMs?: number | undefined
  /**
   * Withdraws the call, which rejects with the signal's reason. A waiting image leaves the queue; decoding stops as
   * after `timeoutMs`. Default: none.
   */
  signal?: AbortSignal | undefined
}

const FITS = ['cover', 'contain', 'fill'] as const
/** Filters of a resize, by their names in sharp, in the order in which the addon knows them. */
export const resizeFilters = [
  'linear',
  'cubic',
  'mitchell',
  'lanczos2',
  'lanczos3',
  'mks2013',
  'mks2021',
] as const
const KERNELS = ['nearest', ...resizeFilters] as const
const CHANNELS = ['rgb', 'bgr', 'gray'] as const
const LAYOUTS = ['nchw', 'nhwc'] as const
const DATA_TYPES = ['float32', 'float64', 'float16', 'uint8', 'int8', 'int32'] as const

/** How an image of different proportions is fitted. */
export type ImageFit = (typeof FITS)[number]
/** Interpolation of the resize, by sharp's names. */
export type ImageKernel = (typeof KERNELS)[number]
/** Channels and their order. */
export type ImageChannels = (typeof CHANNELS)[number]
/** Planar (one channel after the other) or interleaved (per pixel). */
export type ImageLayout = (typeof LAYOUTS)[number]
/** Element types of an image tensor. */
export type ImageDataType = (typeof DATA_TYPES)[number]

/** The usual evaluation crop: a resize that keeps the proportions, then a centre crop. */
export interface ImageCrop {
  /** Length in pixels to which the shorter side is resized. At least the larger of `width` and `height`. */
  shorterSide: number
}

/**
 * How an image becomes a tensor: `value = (pixel * scale - mean[c]) / std[c]`, with pixels 0..255.
 *
 * The defaults leave pixels unchanged. ImageNet models trained with torchvision need `scale: 1 / 255, mean: [0.485,
 * 0.456, 0.406], std: [0.229, 0.224, 0.225]` with `channels: 'rgb'`.
 */
export interface ImageOptions<Type extends ImageDataType = ImageDataType> extends ImageLimits {
  /** Width of the result in pixels, 1 to 16 383; with `height` at most 2^26 pixels in all. */
  width: number
  /** Height of the result in pixels, 1 to 16 383. */
  height: number
  /**
   * How an image of different proportions is fitted: `'cover'` fills the frame and crops the rest evenly, `'contain'`
   * shows the whole image between bars of `background`, `'fill'` distorts it. Default `'cover'`.
   */
  fit?: ImageFit
  /**
   * Resizes so that the shorter side has this length, then crops the centre `width` x `height`: torchvision's
   * `Resize(256)` and `CenterCrop(224)` are `crop: { shorterSide: 256 }` with `width` and `height` 224. Replaces `fit`,
   * which must then be left out. Default: none.
   */
  crop?: ImageCrop
  /**
   * Interpolation of the resize, by sharp's names. Enlarging uses linear interpolation for `'linear'`, nearest for
   * `'nearest'`, and bicubic for all others. An image that already has the size is not resampled. Default `'lanczos3'`.
   */
  kernel?: ImageKernel
  /** Colour [red, green, blue] 0..255 under transparent pixels and in the bars of `'contain'`. Default black. */
  background?: readonly number[]
  /**
   * Ignores the colour profile of the file, as Pillow, OpenCV and torchvision do, and so as most training data was
   * read. For a picture with its own profile, as phones embed it, colours differ by up to 15 of 255. CMYK is then
   * converted to sRGB by a standard profile. Default `false`: colours are converted to sRGB by the profile.
   */
  ignoreIcc?: boolean
  /** Channels and their order. Grey is ITU-R 601 luma, as in Pillow and OpenCV. Default `'rgb'`. */
  channels?: ImageChannels
  /** `'nchw'`: dims [1, C, height, width]; `'nhwc'`: [1, height, width, C]. Default `'nchw'`. */
  layout?: ImageLayout
  /** Element type. Integer types are rounded and clamped to their range. Default `'float32'`. */
  dtype?: Type
  /** Factor on the pixel, before `mean` is subtracted. Default 1. */
  scale?: number
  /** Subtracted from the scaled pixel: one number, or one per channel in the order of `channels`. Default 0. */
  mean?: number | readonly number[]
  /** Divisor after that: one number, or one per channel in the order of `channels`; not 0. Default 1. */
  std?: number | readonly number[]
}

/** Earlier options, which later ones depend on. */
interface EarlierOptions {
  readonly width: number
  readonly height: number
  readonly channels: ImageChannels
}

/** How each option of a name is checked, with its default. */
type Readers<Names extends string> = {
  readonly [Name in Names]: (given: unknown, name: string, earlier: EarlierOptions) => unknown
}

/** The readers of {@link ImageLimits}. */
const limitReaders = {
  limitInputPixels: (given = 64_000_000, name) => count(name, given),
  limitInputBytes: (given = 2 ** 27, name) => count(name, given),
  formats: (given = defaultFormats) => readFormats(given),
  timeoutMs: (given = 30_000, name) => valid<number>(name, given, isDuration(given), durationShown),
  signal: (given, name) =>
    given === undefined ? undefined : valid<AbortSignal>(name, given, isAbortSignal(given), 'an AbortSignal'),
} satisfies Readers<keyof ImageLimits>

/** The options in the order of their readers; throws for the first that is invalid. */
function read<R extends Readers<string>>(
  readers: R,
  given: Readonly<Record<string, unknown>>,
): { readonly [Name in keyof R]: ReturnType<R[Name]> } {
  const options: Record<string, unknown> = {}
  for (const [name, reader] of Object.entries(readers))
    options[name] = reader(given[name], name, options as never)
  return options as never
}

/** {@link ImageLimits} with defaults in place, checked. */
export type ResolvedImageLimits = ReturnType<typeof resolveImageLimits>

/** Fills in defaults and checks; throws `ERR_INVALID_ARG` for the first invalid limit. */
export function resolveImageLimits(options: Readonly<Record<string, unknown>>) {
  return read(limitReaders, options)
}

/** @throws InferenceError `ERR_INVALID_ARG` unless the value is valid. */
function valid<T>(name: string, value: unknown, isValid: boolean, expected: string): T {
  if (isValid) return value as T
  throw invalidArgument(name, expected, value)
}

function count(name: string, value: unknown): number {
  const isCount = Number.isSafeInteger(value) && (value as number) >= 1
  return valid(name, value, isCount, 'a whole number of at least 1')
}

function readFormats(value: unknown): readonly ImageFormat[] {
  const names =
    Array.isArray(value) && value.length > 0 && value.length <= 100 ? [...(value as unknown[])] : []
  if (names.length > 0 && names.every((name) => imageFormats.includes(name as ImageFormat)))
    return names as ImageFormat[]
  throw invalidArgument('formats', `an array of ${imageFormats.join(', ')}`, value)
}

/** Most pixels of a result: 1.6 GB of float64 in three channels. */
const largestResult = 2 ** 26
const longestSide = 16_383

/** The readers of {@link ImageOptions}, in the order in which messages list them. */
const readers = {
  width: (given, name) => size(name, given, longestSide),
  height: (given, name, { width }) =>
    size(name, given, Math.min(longestSide, Math.floor(largestResult / width))),
  fit: (given, name) => oneOf(name, given ?? 'cover', FITS),
  crop: (given, _, { width, height }) => (given === undefined ? undefined : readCrop(given, width, height)),
  kernel: (given, name) => oneOf(name, given ?? 'lanczos3', KERNELS),
  background: (given) => colour(given ?? [0, 0, 0]),
  ignoreIcc: (given, name) =>
    valid<boolean>(name, given ?? false, typeof (given ?? false) === 'boolean', 'true or false'),
  channels: (given, name) => oneOf(name, given ?? 'rgb', CHANNELS),
  layout: (given, name) => oneOf(name, given ?? 'nchw', LAYOUTS),
  dtype: (given, name) => oneOf(name, given ?? 'float32', DATA_TYPES),
  scale: (given, name) => valid<number>(name, given ?? 1, Number.isFinite(given ?? 1), 'a finite number'),
  mean: (given, name, { channels }) => perChannel(name, given ?? 0, channelCounts[channels], false),
  std: (given, name, { channels }) => perChannel(name, given ?? 1, channelCounts[channels], true),
  ...limitReaders,
} satisfies Readers<keyof ImageOptions>

const channelCounts: Readonly<Record<ImageChannels, number>> = { rgb: 3, bgr: 3, gray: 1 }

/** {@link ImageOptions} with defaults in place, checked. */
export type ResolvedImageOptions = ReturnType<typeof resolveImageOptions>

/** Fills in defaults and checks; throws `ERR_INVALID_ARG` for the first invalid option. */
export function resolveImageOptions(options: ImageOptions) {
  const given = readOptions('options', options, Object.keys(readers))
  try {
    const resolved = read(readers, given)
    if (resolved.crop !== undefined && given['fit'] !== undefined)
      throw invalidArgument('fit', 'no value beside crop, which takes its place', given['fit'])
    return { ...resolved, channelCount: channelCounts[resolved.channels] }
  } catch (error) {
    throw typed('options', error)
  }
}

/** Dims of the tensor that {@link decodeImage} makes of one image; their product is the length of a row. */
export function imageDims(options: ImageOptions): [number, number, number, number] {
  return dimsOf(resolveImageOptions(options))
}

export function dimsOf({
  layout,
  channelCount,
  width,
  height,
}: ResolvedImageOptions): [number, number, number, number] {
  return layout === 'nchw' ? [1, channelCount, height, width] : [1, height, width, channelCount]
}

function readCrop(crop: unknown, width: number, height: number): ImageCrop {
  const shorterSide = size(
    'crop.shorterSide',
    readOptions('crop', crop, ['shorterSide']).shorterSide,
    longestSide,
  )
  const least = Math.max(width, height)
  if (shorterSide < least) {
    throw invalidArgument(
      'crop.shorterSide',
      `at least ${least}, the larger of width and height`,
      shorterSide,
    )
  }
  return { shorterSide }
}

function size(name: string, value: unknown, largest: number): number {
  const fits = Number.isInteger(value) && (value as number) >= 1 && (value as number) <= largest
  return valid(name, value, fits, `a whole number of pixels from 1 to ${largest}`)
}

function oneOf<T extends string>(name: string, value: unknown, choices: readonly T[]): T {
  if (choices.includes(value as T)) return value as T
  throw invalidArgument(name, `one of ${choices.join(', ')}`, value)
}

function colour(value: unknown): readonly number[] {
  const parts = Array.isArray(value) && value.length === 3 ? [...(value as unknown[])] : []
  if (parts.length === 3 && parts.every((part) => typeof part === 'number' && part >= 0 && part <= 255))
    return parts as number[]
  throw invalidArgument('background', 'three numbers from 0 to 255: [red, green, blue]', value)
}

function perChannel(name: string, value: unknown, count: number, isDivisor: boolean): readonly number[] {
  const fits = (part: unknown): boolean => Number.isFinite(part) && !(isDivisor && part === 0)
  const list = Array.isArray(value) || ArrayBuffer.isView(value) ? (value as ArrayLike<unknown>) : null
  const values: unknown[] =
    list === null ? Array(count).fill(value) : list.length === count ? Array.from(list) : []
  if (values.length === count && values.every(fits)) return values as number[]
  throw invalidArgument(
    name,
    `a ${isDivisor ? 'non-zero ' : ''}finite number, or ${count} of them, one per channel`,
    value,
  )
}

/**
 * How encoded images become rows of an input: the options of `decodeImage`. Options that follow from the input's shape
 * may be left out: `width`, `height`, `layout`, and `channels` (`'gray'` for one, `'rgb'` for three).
 */
export type ImageInput = Partial<Omit<ImageOptions, 'dtype' | 'signal'>>

/**
 * Resolves the image options of an input against the model.
 *
 * @param option the path of `image` in the configuration, for errors.
 * @param batched whether the first dimension of the input is a batch dimension.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function resolveImageInput(
  model: string,
  option: string,
  image: ImageInput,
  input: ValueMetadata,
  batched: boolean,
): ResolvedImageOptions {
  const { name, type, shape } = input
  const row = batched ? shape.slice(1) : shape.slice(-3)
  const isImage =
    row.length === 3 && batchAxisOf(input) === 0 && (batched || shape.slice(0, -3).every((dim) => dim === 1))
  const expected = `an input of images, whose rows are [channels, height, width] or [height, width, channels]`
  if (!isImage) throw invalidConfig(model, option, expected, `'${name}' of shape ${shownShape(shape)}`)
  const layout = image.layout ?? (isChannelCount(row[2]) && !isChannelCount(row[0]) ? 'nhwc' : 'nchw')
  const [channelCount, height, width] = layout === 'nhwc' ? [row[2], row[0], row[1]] : row
  const fromShape = {
    channels: channelCount === 1 ? ('gray' as const) : ('rgb' as const),
    ...fixed('height', height),
    ...fixed('width', width),
  }
  const resolved = checked(model, option, { ...fromShape, ...image, layout, dtype: type } as ImageOptions)
  const dims = dimsOf(resolved).slice(1)
  if (row.every((dim, axis) => typeof dim !== 'number' || dim === dims[axis])) return resolved
  throw invalidConfig(model, option, `images of rows ${shownShape(row)}, as input '${name}' has them`, dims)
}

function isChannelCount(dim: number | string | undefined): boolean {
  return dim === 1 || dim === 3
}

function fixed(name: 'height' | 'width', dim: number | string | undefined): Partial<ImageOptions> {
  return typeof dim === 'number' ? { [name]: dim } : {}
}

function checked(model: string, option: string, image: ImageOptions): ResolvedImageOptions {
  try {
    return resolveImageOptions(image)
  } catch (error) {
    if (!(error instanceof InferenceError) || error.argument === undefined) throw error
    throw invalidConfig(
      model,
      `${option}.${error.argument.replace(/^options\./, '')}`,
      String(error.expected),
      error.received,
    )
  }
}
