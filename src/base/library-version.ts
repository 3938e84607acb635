import { requireFromPackage } from './own-files.ts'

/** In a bundle that has left the package, whatever package that is part of. */
const unknown = 'unknown'

/** The version of this package. */
export const libraryVersion = version()

function version(): string {
  try {
    const found = requireFromPackage('./package.json') as { name?: string; version: string }
    return found.name === 'zerohop' ? found.version : unknown
  } catch {
    return unknown
  }
}
