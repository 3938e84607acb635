import { isAbortSignal } from './abort-signal.ts'
import { invalidArgument } from '../errors.ts'
import { defaultFormats, imageFormats, type ImageFormat } from './image-format.ts'

/** What an image may cost that comes from outside. One that is over a limit rejects with `ERR_IMAGE_DECODE`, whose `argument` names the limit. */
export interface ImageLimits {
  /**
   * Most pixels of the image as its header tells them, width times height, of the one frame that is decoded; sharp's own
   * option of that name. While it is decoded an interlaced PNG takes 8 bytes a pixel, a progressive JPEG 2 to 6, AVIF
   * about 17. Default 64 000 000.
   */
  limitInputPixels?: number | undefined
  /** Most bytes of the encoded image, in a file or given as bytes; a larger file is not read. Default 128 MiB. */
  limitInputBytes?: number | undefined
  /**
   * Formats let in, told by the first bytes before anything is decoded. Default: all but SVG (`jpeg`, `png`, `webp`, `gif`,
   * `tiff`, `heif`). PDF, camera raw files and what ImageMagick reads are never let in.
   */
  formats?: readonly ImageFormat[] | undefined
  /**
   * How long reading and decoding may take, in milliseconds from when the image's turn comes (see {@link imageConcurrency});
   * the call rejects then. libvips stops by the second, and only between two strips of the image, libjpeg-turbo, which gets none of over
   * 2^24 pixels, when it is done: until then the image keeps its place among those that are decoded at once. Default 30 000.
   */
  timeoutMs?: number | undefined
  /** Withdraws the call, which rejects with the signal's reason: while it waits its turn it leaves the line, later as after `timeoutMs`. */
  signal?: AbortSignal | undefined
}

/** {@link ImageLimits} with every default in place and everything checked. */
export type ResolvedImageLimits = Readonly<Required<Omit<ImageLimits, 'signal'>>> & {
  readonly signal: AbortSignal | undefined
}

/** The names of {@link ImageLimits}. */
export const limitNames = ['limitInputPixels', 'limitInputBytes', 'formats', 'timeoutMs', 'signal'] as const

/** Defaults, then checks; throws `ERR_INVALID_ARG` for the first limit that is wrong. */
export function resolveImageLimits(
  options: Partial<Record<(typeof limitNames)[number], unknown>>,
): ResolvedImageLimits {
  const {
    limitInputPixels = 64_000_000,
    limitInputBytes = 2 ** 27,
    formats = defaultFormats,
    timeoutMs = 30_000,
    signal,
  } = options
  if (signal !== undefined && !isAbortSignal(signal))
    throw invalidArgument('signal', 'an AbortSignal', signal)
  return {
    limitInputPixels: count('limitInputPixels', limitInputPixels),
    limitInputBytes: count('limitInputBytes', limitInputBytes),
    formats: readFormats(formats),
    timeoutMs: duration(timeoutMs),
    signal,
  }
}

function count(name: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number
  throw invalidArgument(name, 'a whole number of at least 1', value)
}

function duration(value: unknown): number {
  if (typeof value === 'number' && value > 0 && value < 2 ** 31) return value
  throw invalidArgument('timeoutMs', 'milliseconds, more than 0 and less than 2^31', value)
}

function readFormats(value: unknown): readonly ImageFormat[] {
  const names =
    Array.isArray(value) && value.length > 0 && value.length <= 100 ? [...(value as unknown[])] : []
  if (names.length > 0 && names.every((name) => imageFormats.includes(name as ImageFormat)))
    return names as ImageFormat[]
  throw invalidArgument('formats', `an array of ${imageFormats.join(', ')}`, value)
}
