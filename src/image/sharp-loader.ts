import { InferenceError } from '../errors.ts'

export type SharpFactory = typeof import('sharp').default

let loading: Promise<SharpFactory> | undefined

/**
 * sharp, imported when the first image is decoded, so that importing this package never needs its binary.
 * Settings of the whole process: no cache of operations, one libvips thread per image.
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
    const { default: sharp } = await import('sharp')
    sharp.cache(false)
    sharp.concurrency(1)
    return sharp
  } catch (cause) {
    throw new InferenceError(
      'ERR_NATIVE_LOAD',
      `sharp, which decodes the images, cannot be loaded on ${process.platform}-${process.arch}; ` +
        'install it with its optional dependencies: npm install --include=optional sharp',
      { name: 'sharp', expected: 'the package sharp with its binary', cause },
    )
  }
}
