import { dirname, join } from 'node:path'
import { isCutShort, loadBinding, prebuildName } from '../../native/addon.ts'
import type { NativeJpeg } from '../../native/native-binding.ts'
import { requireFromPackage } from '../../base/own-package.ts'

let found: NativeJpeg | null | undefined

/**
 * The addon, where it can decode JPEGs: with the libjpeg-turbo that `@julusian/jpeg-turbo` has for Linux, if that is installed. The
 * package's own functions are not called: they take the fast and rough cosine transform, and read whole files for a small image.
 */
export function jpegDecoder(): NativeJpeg | null {
  if (found === undefined) found = open()
  return found
}

function open(): NativeJpeg | null {
  const { binding } = loadBinding()
  if (binding === null) return null
  try {
    const library = jpegLibrary()
    if (isCutShort(library)) return null
    binding.openJpegDecoder(library)
    return binding
  } catch {
    return null
  }
}

/** Where the package has the library for this platform; throws where it is not installed. */
export function jpegLibrary(): string {
  const root = dirname(requireFromPackage.resolve('@julusian/jpeg-turbo/package.json'))
  return join(root, 'prebuilds', `jpeg-turbo-${prebuildName()}`, 'libturbojpeg.so.0')
}
