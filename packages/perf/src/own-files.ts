import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this package. */
export const ownFolder = fileURLToPath(new URL('..', import.meta.url))

/** A compiled file of this package, also when running from TypeScript source. */
export function ownFile(path: string): string {
  return join(ownFolder, 'dist', path)
}

/** Resolves other packages from where this one is installed. */
export const requireFromPackage = createRequire(import.meta.url)
