import { invalidArgument } from '../errors.ts'
import { readOptions, typed } from './plain-options.ts'
import { limitNames, resolveImageLimits, type ImageLimits, type ResolvedImageLimits } from './image-limits.ts'

const FITS = ['cover', 'contain', 'fill'] as const
const KERNELS = [
  'nearest',
  'linear',
  'cubic',
  'mitchell',
  'lanczos2',
  'lanczos3',
  'mks2013',
  'mks2021',
] as const
const CHANNELS = ['rgb', 'bgr', 'gray'] as const
const LAYOUTS = ['nchw', 'nhwc'] as const
const DATA_TYPES = ['float32', 'float64', 'float16', 'uint8', 'int8', 'int32'] as const

/** How an image of other proportions is made to fit. */
export type ImageFit = (typeof FITS)[number]
/** Interpolations of a resize, in sharp's words. */
export type ImageKernel = (typeof KERNELS)[number]
/** Which channels, in which order. */
export type ImageChannels = (typeof CHANNELS)[number]
/** Channels one after the other, or of each pixel together. */
export type ImageLayout = (typeof LAYOUTS)[number]
/** Element types that an image can have. */
export type ImageDataType = (typeof DATA_TYPES)[number]

/** The usual evaluation crop: a resize that keeps the proportions, then the centre. */
export interface ImageCrop {
  /** Length in pixels that the shorter side gets first. At least the larger of `width` and `height`. */
  shorterSide: number
}

/**
 * What an image becomes: `value = (pixel * scale - mean[c]) / std[c]`, pixels being 0..255.
 *
 * The defaults leave pixels as they are. ImageNet models trained with torchvision want
 * `scale: 1 / 255, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]` with `channels: 'rgb'`.
 */
export interface ImageOptions<Type extends ImageDataType = ImageDataType> extends ImageLimits {
  /** Width of the result in pixels, at least 1. */
  width: number
  /** Height of the result in pixels, at least 1. */
  height: number
  /**
   * How an image of other proportions is made to fit: `'cover'` fills the frame and cuts what stands out on either
   * side, `'contain'` shows all of it between bars of `background`, `'fill'` distorts it. Default `'cover'`.
   */
  fit?: ImageFit
  /**
   * Resize so that the shorter side has this length, then cut the centre `width` x `height`: torchvision's
   * `Resize(256)` and `CenterCrop(224)` are `crop: { shorterSide: 256 }` with `width` and `height` 224.
   * Takes the place of `fit`, which may then only be left out. Default: none.
   */
  crop?: ImageCrop
  /** Interpolation of the resize, in sharp's words; what is enlarged is interpolated linearly for `'linear'`, and bicubically for all but `'nearest'`. An image that already has the size is not touched. Default `'lanczos3'`. */
  kernel?: ImageKernel
  /** Colour, as [red, green, blue] 0..255, under transparent pixels and beside a `'contain'`ed image. Default black. */
  background?: readonly number[]
  /**
   * Take pixels as they are in the file, without their colour profile, as Pillow, OpenCV and torchvision do: what models were trained
   * on. Colours of a picture with a profile of its own, as phones embed it, are up to 15 of 255 apart. CMYK goes to
   * sRGB by a usual profile then. Default `false`: colours go to sRGB by the profile.
   */
  ignoreIcc?: boolean
  /** Which channels, in which order. Grey is ITU-R 601 luma, as in Pillow and OpenCV. Default `'rgb'`. */
  channels?: ImageChannels
  /** `'nchw'`: dims [1, C, height, width]; `'nhwc'`: [1, height, width, C]. Default `'nchw'`. */
  layout?: ImageLayout
  /** Element type. Values for an integer type are rounded and held within its range. Default `'float32'`. */
  dtype?: Type
  /** Factor on the pixel, before `mean` is taken off. Default 1. */
  scale?: number
  /** Taken off the scaled pixel: one number, or one per channel in the order of `channels`. Default 0. */
  mean?: number | readonly number[]
  /** Divisor after that: one number, or one per channel in the order of `channels`; not 0. Default 1. */
  std?: number | readonly number[]
}

/** {@link ImageOptions} with every default in place and everything checked. */
export type ResolvedImageOptions = ResolvedImageLimits &
  Readonly<
    Required<Omit<ImageOptions, keyof ImageLimits | 'crop' | 'mean' | 'std'>> & {
      crop: ImageCrop | undefined
      channelCount: number
      mean: readonly number[]
      std: readonly number[]
    }
  >

const names = [
  'width',
  'height',
  'fit',
  'crop',
  'kernel',
  'background',
  'ignoreIcc',
  'channels',
  'layout',
  'dtype',
  'scale',
  'mean',
  'std',
  ...limitNames,
] as const satisfies readonly (keyof ImageOptions)[]

/** Most pixels of a result: 1.6 GB of float64 in three channels. */
const largestResult = 2 ** 26

/** Defaults, then checks; throws `ERR_INVALID_ARG` for the first option that is wrong. */
export function resolveImageOptions(options: ImageOptions): ResolvedImageOptions {
  const given = readOptions('options', options, names)
  try {
    return resolve(given)
  } catch (error) {
    throw typed('options', error)
  }
}

function resolve(options: Partial<Record<(typeof names)[number], unknown>>): ResolvedImageOptions {
  const width = size('width', options.width, 16_383)
  const height = size('height', options.height, Math.min(16_383, Math.floor(largestResult / width)))
  const channels = oneOf('channels', options.channels ?? 'rgb', CHANNELS)
  const channelCount = channels === 'gray' ? 1 : 3
  return {
    ...resolveImageLimits(options),
    width,
    height,
    fit: oneOf('fit', options.fit ?? 'cover', FITS),
    crop: options.crop === undefined ? undefined : resolveCrop(options.fit, options.crop, width, height),
    kernel: oneOf('kernel', options.kernel ?? 'lanczos3', KERNELS),
    background: colour(options.background ?? [0, 0, 0]),
    ignoreIcc: flag('ignoreIcc', options.ignoreIcc ?? false),
    channels,
    channelCount,
    layout: oneOf('layout', options.layout ?? 'nchw', LAYOUTS),
    dtype: oneOf('dtype', options.dtype ?? 'float32', DATA_TYPES),
    scale: finite('scale', options.scale ?? 1),
    mean: perChannel('mean', options.mean ?? 0, channelCount, false),
    std: perChannel('std', options.std ?? 1, channelCount, true),
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

function resolveCrop(fit: unknown, crop: unknown, width: number, height: number): ImageCrop {
  if (fit !== undefined) throw invalidArgument('fit', 'no value beside crop, which takes its place', fit)
  const shorterSide = size('crop.shorterSide', readOptions('crop', crop, ['shorterSide']).shorterSide, 16_383)
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
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= largest)
    return value as number
  throw invalidArgument(name, `a whole number of pixels from 1 to ${largest}`, value)
}

function flag(name: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw invalidArgument(name, 'true or false', value)
}

function finite(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw invalidArgument(name, 'a finite number', value)
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
  const isList = Array.isArray(value) || ArrayBuffer.isView(value)
  const list =
    isList && (value as unknown as number[]).length === count ? Array.from(value as unknown as number[]) : []
  const values: unknown[] = isList ? list : Array(count).fill(value)
  if (values.length === count && values.every(fits)) return values as number[]
  throw invalidArgument(
    name,
    `a ${isDivisor ? 'non-zero ' : ''}finite number, or ${count} of them, one per channel`,
    value,
  )
}
