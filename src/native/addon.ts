import { existsSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { packageFolder } from '../base/own-package.ts'
import { isMusl, otherRuntime, readHeader } from '../base/platform.ts'
import type { NativeBinding } from './native-binding.ts'
import { setting } from '../base/settings.ts'

/** The addon, or in words why there is none, which paths were tried and what to do. */
type BindingResult =
  | { readonly binding: NativeBinding; readonly path: string; readonly reason?: undefined }
  | { readonly binding: null; readonly path?: undefined; readonly reason: string }

/** Raised together with `kBindingVersion` in native/addon.cc whenever the exports change their meaning. */
export const BINDING_VERSION = '16'

let loaded: BindingResult | undefined

/**
 * Loads the native addon; never throws. The first usable binary wins: the one that the environment variable
 * `ZEROHOP_NATIVE` names (then no other is tried; `off` tries none), the prebuild, a local CMake build, a local
 * node-gyp build. The answer is kept for the life of the isolate.
 */
export function loadBinding(): BindingResult {
  loaded ??= findBinding(setting('ZEROHOP_NATIVE'))
  return loaded
}

/** The folder of this platform's prebuild. */
export function prebuildName(): string {
  return `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`
}

function findBinding(chosen: string | undefined): BindingResult {
  if (chosen === 'off')
    return { binding: null, reason: 'the native addon is turned off by ZEROHOP_NATIVE=off' }
  const runtime = otherRuntime()
  if (runtime !== null)
    return { binding: null, reason: `the native addon is for Node.js, and this is ${runtime}` } // whose process it could end
  const paths = chosen ? [resolve(chosen)] : defaultPaths()
  const tried: string[] = []
  for (const path of paths) {
    try {
      return { binding: open(path), path }
    } catch (error) {
      tried.push(`  ${path}: ${firstLine(error)}`)
    }
  }
  const next = chosen ? 'correct or unset ZEROHOP_NATIVE' : `to build it: ${buildCommand()}`
  return {
    binding: null,
    reason: `no native addon for ${prebuildName()}; tried\n${tried.join('\n')}\n${next}`,
  }
}

function defaultPaths(): string[] {
  const folders = [
    `prebuilds/${prebuildName()}`,
    'build/cmake/Release',
    'build/cmake/Debug',
    'build/Release',
    'build/Debug',
  ]
  return folders.map((folder) => join(packageFolder, folder, 'zerohop.node'))
}

function open(path: string): NativeBinding {
  const file = statSync(path, { throwIfNoEntry: false })
  if (file === undefined) throw new Error('not there')
  if (!file.isFile()) throw new Error('no file') // of a pipe the first bytes would be waited for
  if (isCutShort(path)) throw new Error('the file is cut short')
  const addon = { exports: {} as Partial<NativeBinding> | null | undefined }
  // Not require(): it takes a file without the .node suffix for JavaScript.
  process.dlopen(addon, path)
  if (typeof addon.exports?.version !== 'string' || typeof addon.exports.acquire !== 'function') {
    throw new Error('not the addon of zerohop')
  }
  if (addon.exports.version !== BINDING_VERSION) {
    throw new Error(
      `made for another version of zerohop (binding ${addon.exports.version}, wanted ${BINDING_VERSION})`,
    )
  }
  return addon.exports as NativeBinding
}

/** In a checkout there is a script; an installed package has its sources and CMake's build file. */
function buildCommand(): string {
  if (existsSync(join(packageFolder, 'scripts/native/build.mjs'))) return 'npm run build:native'
  const [sources, output] = ['native', 'build/cmake/Release'].map((folder) => join(packageFolder, folder))
  return `run \`npm install cmake-js node-addon-api@8 node-api-headers\`, then \`npx cmake-js compile -d "${sources}" -O "${output}" -B Release\` in the folder of your package.json`
}

/**
 * A library that lost its end (a copy or an unpacking that was interrupted) does not fail to load: the system's
 * loader touches pages that are not there, and the process dies. In ELF files (here those of 64 bits) the table of sections comes last.
 */
export function isCutShort(path: string): boolean {
  const header = readHeader(path)
  if (
    process.platform !== 'linux' ||
    header.length < 64 ||
    header.readUInt32BE(0) !== 0x7f454c46 ||
    header[4] !== 2
  )
    return false
  const sectionsEnd = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60)
  return statSync(path).size < sectionsEnd
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0]!
}
