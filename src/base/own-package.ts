import module from 'node:module'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

// Not a named import: a bundler would then resolve at build time what is to be resolved at run time.
const { createRequire } = module
// import.meta is missing in a CommonJS bundle.
const place = import.meta.url ?? pathToFileURL(__filename).href

/**
 * The folder of this package, also in a checkout. It is found by the package's name, so that code bundled
 * into another package finds the installed package, too. If none is installed, it is the folder of the
 * bundle.
 */
export const packageFolder = dirname(installed() ?? fileURLToPath(place))

/** Resolves other packages from where this one is installed. */
export const requireFromPackage = createRequire(join(packageFolder, 'package.json'))

/**
 * Path of a compiled file of this package that is run or read as a file; also when running from TypeScript
 * source, or in a bundle.
 *
 * @param path in `dist/`, or beside a bundle without the package.
 * @throws Error if it does not exist.
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

/**
 * The version of this package; `'unknown'` in a bundle without the package, as the bundle may belong to any
 * package.
 */
export const libraryVersion = version()

function version(): string {
  try {
    const found = requireFromPackage('./package.json') as { name?: string; version: string }
    return found.name === 'zerohop' ? found.version : 'unknown'
  } catch {
    return 'unknown'
  }
}
