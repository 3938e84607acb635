import { closeSync, openSync, readSync } from 'node:fs'
import { InferenceError } from '../errors.ts'

/**
 * Other runtimes with Node's API, by their names in `process.versions`. In Bun and Deno, native addons crash the
 * process when a thread ends; Electron refuses memory that an addon allocated.
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

/** Whether Node was linked with musl: then the header of its executable names musl's loader. */
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

const oldestNode = [20, 19] as const

/** Facts about the platform of a process. */
export interface PlatformFacts {
  readonly versions: Readonly<Record<string, string | undefined>>
  /** Whether it is linked with the musl C library, as on Alpine. */
  readonly musl: boolean
}

/** Why an engine cannot run in this process, with advice; `null` if it can. */
export function platformError(facts: PlatformFacts): InferenceError | null {
  const runtime = otherRuntime(facts.versions)
  if (runtime !== null) {
    return refusal(
      'Node.js itself',
      runtime,
      'Run the engine in a Node.js process with `serve()` of zerohop/processes, and use it from here through `connect()`',
    )
  }
  if (!isSince(facts.versions['node']!, oldestNode))
    return refusal(
      'Node.js 20.19 or newer',
      `Node.js ${facts.versions['node']}`,
      'Install a newer version of Node.js',
    )
  if (facts.musl) {
    return refusal(
      'Linux with glibc',
      'Node.js for musl (as on Alpine)',
      'onnxruntime-node has no binaries for musl: use an image such as node:22-slim instead of node:22-alpine',
    )
  }
  return null
}

function refusal(expected: string, received: string, next: string): InferenceError {
  return new InferenceError(
    'ERR_PLATFORM',
    `zerohop cannot run models here: expected ${expected}, received ${received}. ${next}.`,
    { expected, received },
  )
}

let facts: PlatformFacts | undefined

/** @throws InferenceError `ERR_PLATFORM` where an engine cannot run. */
export function checkPlatform(): void {
  facts ??= { versions: process.versions, musl: isMusl() }
  const error = platformError(facts)
  if (error !== null) throw error
}
