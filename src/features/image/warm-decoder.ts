import type { ImageFormat } from '../../options/image-format.ts'
import type { ResolvedImageOptions } from '../../options/image-options.ts'
import { newRow } from './decode-image.ts'
import { reusePixels } from './pixel-buffers.ts'
import { writePixels } from './pixels.ts'
import { decodeRgb } from './rgb-pipeline.ts'
import { loadSharp, type SharpFactory } from './sharp-loader.ts'

/** By way of libjpeg-turbo where that is there, and of sharp. */
const warmedFormats = ['jpeg', 'png'] as const satisfies readonly ImageFormat[]
/** The first is ten times as slow as the second, and that twice as the third. */
const rounds = 3

/**
 * Has the decoder do once what it will do for images of these options, so that nobody's first image waits for libraries to be loaded.
 *
 * @throws InferenceError `ERR_NATIVE_LOAD` where sharp cannot be loaded.
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
      const rgb = await decodeRgb(sample, options) // not in turn: nobody's images keep a load waiting
      writePixels(rgb, newRow(options), options)
      reusePixels(rgb)
    }
  } catch {
    // Over one of its limits, say: requests will be told.
  }
}
