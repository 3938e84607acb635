import { InferenceError } from '../../errors.ts'

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
