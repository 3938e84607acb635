import { beforeAll, vi } from 'vitest'
import * as imageDecoders from '../../src/features/image/image-decoders.ts'
import type { NativeJpeg } from '../../src/native/native-binding.ts'

type Decode = NativeJpeg['decodeJpeg']

const decoder = imageDecoders.jpegDecoder()

/** Whether there is a decoder beside sharp on this machine. */
export const hasJpegDecoder = decoder !== null

/** For the name of a suite that needs it. */
export const missingJpegDecoder = hasJpegDecoder
  ? ''
  : ' (skipped: no addon, or no libjpeg-turbo for this platform)'

/** What the decoder has said each time that it was asked. */
export const watch: { isOn: boolean; decoded: boolean[] } = { isOn: true, decoded: [] }
let decode: Decode | undefined

/** Has the tests of a file decode by {@link watchedDecoder}. */
export function watchDecoder(): void {
  beforeAll(() => void vi.spyOn(imageDecoders, 'jpegDecoder').mockImplementation(watchedDecoder))
}

function watchedDecoder(): NativeJpeg | null {
  if (decoder === null || !watch.isOn) return null
  const asked: Decode = async (...given) => {
    const done = await (decode ?? decoder.decodeJpeg.bind(decoder))(...given)
    watch.decoded.push(done)
    return done
  }
  return { openJpegDecoder: () => {}, decodeJpeg: asked }
}

/** Has images decoded by `instead` until it is called with nothing. */
export function decodeBy(instead?: Decode): void {
  decode = instead
}
