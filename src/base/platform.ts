import { closeSync, openSync, readSync } from 'node:fs'

/**
 * Other runtimes with Node's API, by their names in `process.versions`. Native addons crash Bun and Deno when
 * a thread ends, and Electron refuses their memory.
 */
const otherRuntimes: readonly (readonly [name: string, called: string])[] = [
  ['bun', 'Bun'],
  ['deno', 'Deno'],
  ['electron', 'Electron'],
]

/** The runtime, if it is not Node.js, with its version; otherwise `null`. */
export function otherRuntime(
  versions: Readonly<Record<string, string | undefined>> = process.versions,
): string | null {
  const [name, called] = otherRuntimes.find(([name]) => versions[name] !== undefined) ?? []
  return name === undefined ? null : `${called} ${versions[name]}`
}

/** Whether Node was linked with musl: the program header has the loader's name. */
export function isMusl(): boolean {
  if (process.platform !== 'linux') return false
  try {
    return readHeader(process.execPath).includes('ld-musl-')
  } catch {
    return false
  }
}

/** The first bytes of a file. */
export function readHeader(path: string): Buffer {
  const header = Buffer.alloc(4096)
  const file = openSync(path, 'r')
  try {
    return header.subarray(0, readSync(file, header, 0, header.length, 0))
  } finally {
    closeSync(file)
  }
}

/** Whether a version, such as `1.26.0`, is this one or newer; false if it cannot be parsed. */
export function isSince(version: string, [major, minor]: readonly [major: number, minor: number]): boolean {
  const [ownMajor = NaN, ownMinor = NaN] = version.split('.').map(Number)
  return ownMajor > major || (ownMajor === major && ownMinor >= minor)
}
