import { dirname, join } from 'node:path'
import { requireFromPackage } from '../../base/own-package.ts'
import { InferenceError } from '../../errors.ts'
import { isCutShort, loadBinding, prebuildName } from '../../native/addon.ts'
import type { NativeJpeg } from '../../native/native-binding.ts'

export type SharpFactory = typeof import('sharp').default

let loading: Promise<SharpFactory> | undefined

/**
 * sharp, imported when the first image is decoded, so that importing this package never needs it. Its settings of the whole
 * process (`sharp.cache`, `sharp.concurrency`) are the application's and stay as they are.
 */
export function loadSharp(): Promise<SharpFactory> {
  loading ??= importSharp().catch((error: unknown) => {
    loading = undefined
    throw error
  })
  return loading
}

async function importSharp(): Promise<SharpFactory> {
  try {
    return (await import(/* webpackIgnore: true */ 'sharp')).default
  } catch (cause) {
    throw new InferenceError(
      'ERR_NATIVE_LOAD',
      `sharp, which decodes the images, cannot be loaded on ${process.platform}-${process.arch}: it is a package of its own, ` +
        'with a binary among its optional dependencies. Install it: npm install sharp (after an install that left them out: ' +
        'npm install --include=optional sharp)',
      { name: 'sharp', expected: 'the package sharp with its binary', cause },
    )
  }
}

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
