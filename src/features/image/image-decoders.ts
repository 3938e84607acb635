import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { requireFromPackage } from '../../base/own-package.ts'
import { InferenceError } from '../../errors.ts'
import { isCutShort, loadBinding, prebuildName } from '../../native/addon.ts'
import type { NativeJpeg } from '../../native/native-binding.ts'

export type SharpFactory = typeof import('sharp').default

let loading: Promise<SharpFactory> | undefined

/**
 * sharp, imported when the first image is decoded, so that importing this package does not require it. Its
 * process-wide settings (`sharp.cache`, `sharp.concurrency`) belong to the application and are not changed.
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
      `Cannot load sharp, which decodes images, on ${process.platform}-${process.arch}: it is a separate package ` +
        'with a binary among its optional dependencies. Install it: npm install sharp (after an install without them: ' +
        'npm install --include=optional sharp)',
      { name: 'sharp', expected: 'the package sharp with its binary', cause },
    )
  }
}

/** After smaller images the cache is not emptied: 100 of them take 50 to 160 MB there. */
const leastDroppedPixels = 2 ** 18

/**
 * Empties sharp's cache after a progressive JPEG. libvips keeps its last 100 operations, and with them libjpeg's copy of the whole
 * image: 2 to 6 bytes a pixel, which `sharp.cache().memory` does not count. Uploads of 40 megapixels took 1.3 GB.
 * Operations that still run are not affected, and the settings stay. It takes 3 ms after 6 megapixels, 6 to 9 ms after 40.
 */
export function dropKept(sharp: SharpFactory, pixels: number): void {
  if (pixels < leastDroppedPixels) return
  const { max } = sharp.cache().items
  if (max === 0) return // nothing is kept, or another thread is emptying it
  sharp.cache({ items: 0 })
  sharp.cache({ items: max >>> 0 }) // libvips stores an int: 2 ** 32 - 1 comes back as -1
}

let found: NativeJpeg | null | undefined

/**
 * The addon, if it can decode JPEGs: with the libjpeg-turbo of the package `@julusian/jpeg-turbo`, if
 * installed. The package's own functions are not used: they apply the fast, inexact cosine transform, and
 * read the whole file for a small image.
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

/** Path of the package's library for this platform. Throws if the package is not installed, or has none. */
export function jpegLibrary(): string {
  const root = dirname(requireFromPackage.resolve('@julusian/jpeg-turbo/package.json'))
  return jpegLibraryIn(join(root, 'prebuilds', `jpeg-turbo-${prebuildName()}`), process.platform)
}

/**
 * For Linux the package has the library as a file. For macOS it is part of the package's binary, which exports its functions.
 * The binary for Windows exports none.
 */
export function jpegLibraryIn(folder: string, platform: NodeJS.Platform): string {
  if (platform !== 'darwin') return join(folder, 'libturbojpeg.so.0')
  const binary = readdirSync(folder).find((name) => name.endsWith('.node'))
  if (binary === undefined) throw new Error(`${folder} has no binary`)
  return join(folder, binary)
}
