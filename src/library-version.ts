import { requireFromPackage } from './own-files.ts'

/** The version of this package. */
export const libraryVersion = version()

function version(): string {
  try {
    return (requireFromPackage('./package.json') as { version: string }).version
  } catch {
    return 'unknown' // in a bundle that has left the package
  }
}
