import module from 'node:module'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

// Not imported by its name: bundlers would answer by themselves what is resolved here, when they build.
const { createRequire } = module
// A bundle of CommonJS has no import.meta.
const place = import.meta.url ?? pathToFileURL(__filename).href

/**
 * The folder of this package, of a checkout too. Found by its name: so the installed package is found as well from a bundle that this
 * has become part of. Where none is installed there, the folder of the bundle.
 */
export const packageFolder = dirname(installed() ?? fileURLToPath(place))

/** Finds other packages from where this one is installed. */
export const requireFromPackage = createRequire(join(packageFolder, 'package.json'))

/**
 * A compiled file of this package, which is run or read as a file: also when this runs from its TypeScript source, or in a bundle.
 *
 * @param path in `dist/`, or beside a bundle that has left the package.
 * @throws Error where it is not there.
 */
export function ownFile(path: string): string {
  const file = [join(packageFolder, 'dist', path), join(packageFolder, path)].find((file) => existsSync(file))
  if (file !== undefined) return file
  throw new Error(
    `zerohop's ${path} is not in ${packageFolder}: leave zerohop out of the bundle and install it, or put its folder dist/ there`,
  )
}

function installed(): string | undefined {
  try {
    return createRequire(place).resolve('zerohop/package.json')
  } catch {
    return undefined
  }
}

/** The version of this package; `'unknown'` in a bundle that has left it, whatever package that is part of. */
export const libraryVersion = version()

function version(): string {
  try {
    const found = requireFromPackage('./package.json') as { name?: string; version: string }
    return found.name === 'zerohop' ? found.version : 'unknown'
  } catch {
    return 'unknown'
  }
}
