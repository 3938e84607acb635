import { vi } from 'vitest'
import { decodeImage } from '../../src/image/exports.ts'
import type { ImageOptions, ImageSource } from '../../src/image/exports.ts'
import type { NativeJpeg } from '../../src/memory/native-jpeg.ts'

type Decode = NativeJpeg['decodeJpeg']

const { jpegDecoder: real } = await vi.importActual<typeof import('../../src/image/jpeg-decoder.ts')>('../../src/image/jpeg-decoder.ts')
const decoder = real()

/** Whether there is a decoder beside sharp on this machine. */
export const hasJpegDecoder = decoder !== null

/** For the name of a suite that needs it. */
export const missingJpegDecoder = hasJpegDecoder ? '' : ' (skipped: no addon, or no libjpeg-turbo for this platform)'

let isOn = true
let decoded: boolean[] = []
let decode: Decode | undefined

/** Stands in for `jpegDecoder`: notes how often the decoder is asked, and what it says. */
export function watchedDecoder(): NativeJpeg | null {
  if (decoder === null || !isOn) return null
  const asked: Decode = async (...given) => {
    const done = await (decode ?? decoder.decodeJpeg.bind(decoder))(...given)
    decoded.push(done)
    return done
  }
  return { openJpegDecoder: () => {}, decodeJpeg: asked }
}

/** Has images decoded by `instead` until it is called with nothing. */
export function decodeBy(instead?: Decode): void {
  decode = instead
}

export interface Outcome {
  /** The pixels as bytes, or the error. */
  readonly pixels: Uint8Array | Error
  /** What the decoder said each time that it was asked. */
  readonly decoded: readonly boolean[]
}

const outcomeOf = async (source: ImageSource, options: ImageOptions): Promise<Outcome> => {
  decoded = []
  const pixels = await decodeImage(source, { dtype: 'uint8', layout: 'nhwc', ...options }).then(({ data }) => data as Uint8Array, (error: Error) => error)
  return { pixels, decoded }
}

/** What becomes of an image with the decoder, and what with sharp alone. */
export async function byBoth(source: ImageSource, options: ImageOptions): Promise<{ ours: Outcome; sharps: Outcome }> {
  const ours = await outcomeOf(source, options)
  isOn = false
  try {
    return { ours, sharps: await outcomeOf(source, options) }
  } finally {
    isOn = true
  }
}

/** How far two pictures are apart, in levels of 255. */
export function difference(one: Uint8Array | Error, other: Uint8Array | Error): { mean: number; most: number } {
  if (one instanceof Error || other instanceof Error) throw one instanceof Error ? one : other
  const levels = Array.from(one, (value, at) => Math.abs(value - other[at]!))
  return { mean: levels.reduce((sum, level) => sum + level, 0) / levels.length, most: levels.reduce((most, level) => Math.max(most, level), 0) }
}
