import { decodeImage } from '../../src/features/image/exports.ts'
import type { ImageOptions, ImageSource } from '../../src/features/image/exports.ts'
import { watch } from './watched-decoder.ts'

export interface Outcome {
  /** The pixels as bytes, or the error. */
  readonly pixels: Uint8Array | Error
  /** What the decoder said each time that it was asked. */
  readonly decoded: readonly boolean[]
}

const outcomeOf = async (source: ImageSource, options: ImageOptions): Promise<Outcome> => {
  watch.decoded = []
  const pixels = await decodeImage(source, { dtype: 'uint8', layout: 'nhwc', ...options }).then(
    ({ data }) => data as Uint8Array,
    (error: Error) => error,
  )
  return { pixels, decoded: watch.decoded }
}

/** What becomes of an image with the decoder, and what with sharp alone. */
export async function byBoth(
  source: ImageSource,
  options: ImageOptions,
): Promise<{ ours: Outcome; sharps: Outcome }> {
  const ours = await outcomeOf(source, options)
  watch.isOn = false
  try {
    return { ours, sharps: await outcomeOf(source, options) }
  } finally {
    watch.isOn = true
  }
}

/** How far two pictures are apart, in levels of 255. */
export function difference(
  one: Uint8Array | Error,
  other: Uint8Array | Error,
): { mean: number; most: number } {
  if (one instanceof Error || other instanceof Error) throw one instanceof Error ? one : other
  let [sum, most] = [0, 0]
  for (let at = 0; at < one.length; at++) {
    const level = Math.abs(one[at]! - other[at]!)
    sum += level
    most = Math.max(most, level)
  }
  return { mean: sum / one.length, most }
}
