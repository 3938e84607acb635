import { existsSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { packageFolder } from '../base/own-package.ts'
import { isMusl, otherRuntime, readHeader } from '../base/platform.ts'
import type { NativeJpeg } from './native-jpeg.ts'
import type { NativeKernels } from './native-kernels.ts'
import type { NativeProcesses } from './native-processes.ts'
import type { NativeProviders } from './native-providers.ts'
import type { NativeRuns } from './native-runs.ts'

/** The kind of native memory a lease got: page-locked by the CUDA driver, or pages of the operating system's. */
export type NativeMemoryKind = 'pinned' | 'plain'

/** A piece of staging memory, held until it is released or the garbage collector has found its bytes. */
export interface NativeLease {
  /** By which run loops know it, of whichever isolate. */
  readonly id: number
  /** As many as asked for. They start on a cache line (64 bytes), from 64 KiB on at a page (4 KiB). */
  readonly bytes: ArrayBuffer
  readonly kind: NativeMemoryKind
  /** Whether it is memory of its own, beside what the pool keeps: it goes back to the system with its last holder. */
  readonly pastLimit: boolean
  /** Why it is not page-locked although that was asked for. */
  readonly reason?: string
}

/** Counters of the process's staging pool. */
export interface NativePoolStats {
  readonly slabs: number
  /** The limit in force: the largest claimed. */
  readonly limitBytes: number
  readonly reservedBytes: number
  /** The part of `reservedBytes` that is page-locked. */
  readonly pinnedBytes: number
  /** The part of `reservedBytes` that does not count towards the limit. */
  readonly pastLimitBytes: number
  /** Bytes of slots that a lease or a run loop still holds. */
  readonly usedBytes: number
  readonly highWaterBytes: number
  /** Leases not yet released. */
  readonly leases: number
  /** Times that the limit left no room. */
  readonly failures: number
}

/** What the CUDA driver says of itself, or why there is none. */
export interface CudaProbe {
  readonly available: boolean
  /** Why it is not available; empty otherwise. */
  readonly reason: string
  /** As the driver numbers CUDA: 13000 is 13.0. */
  readonly driverVersion: number
  readonly devices: readonly {
    readonly ordinal: number
    readonly name: string
    readonly totalBytes: number
  }[]
}

/** Instead of a device's ordinal: memory need not be page-locked. */
export const plainMemory = -1

/** The native addon. Throws a TypeError for arguments of a wrong type, a RangeError for numbers that make no sense. */
export interface NativeBinding extends NativeJpeg, NativeKernels, NativeProviders, NativeRuns {
  /** Must equal {@link BINDING_VERSION}. */
  readonly version: string
  /** The size of slabs counts before the first `acquire` only; the limit may move, and counts while none is claimed. */
  configure(options: { slabBytes?: number; limitBytes?: number }): void
  /** Asks for a limit; of all that are claimed in the process the largest counts. Returns the number of the claim. */
  claimLimit(limitBytes: number): number
  /** Takes a claim back. Doing it twice is allowed. */
  dropLimit(claim: number): void
  /**
   * Memory that is page-locked for the CUDA device of that ordinal, or plain with {@link plainMemory}, and where
   * page-locked memory is not to be had, with the reason. Where the limit is reached: null, or with `pastLimit` plain
   * memory that the pool does not keep. Null, too, where the system has no more memory. Throws with code
   * `ERR_NO_EXTERNAL_BUFFERS` where the runtime refuses native memory.
   */
  acquire(byteLength: number, device: number, pastLimit?: boolean): NativeLease | null
  /** As `acquire` within the limit, off the calling thread: page-locking takes long. */
  acquireAsync(byteLength: number, device: number): Promise<NativeLease | null>
  /** Another buffer over some of the bytes of a lease, which holds the memory until it is released or collected; the lease is not held by it. */
  lend(leaseId: number, offset: number, byteLength: number): ArrayBuffer
  /** Takes the memory from the bytes of a lease, or from those that were lent, and drops its hold on it. Doing it twice is allowed. */
  release(bytes: ArrayBuffer): void
  /** Gives slabs that nothing holds back to the system; returns their bytes. Costly with a GPU at work. */
  trim(): number
  stats(): NativePoolStats
  /** Opens the CUDA driver at the first call; makes no context on the GPU. */
  cudaProbe(): CudaProbe
  /** `null` where memory cannot be handed over to other processes. */
  readonly processes?: NativeProcesses | null
}

/** The addon, or in words why there is none, which paths were tried and what to do. */
export type BindingResult =
  | { readonly binding: NativeBinding; readonly path: string; readonly reason?: undefined }
  | { readonly binding: null; readonly path?: undefined; readonly reason: string }

/** Raised together with `kBindingVersion` in native/addon.cc whenever the exports change their meaning. */
export const BINDING_VERSION = '11'

let loaded: BindingResult | undefined

/**
 * Loads the native addon; never throws. The first usable binary wins: the one that the environment variable
 * `ZEROHOP_NATIVE` names (then no other is tried; `off` tries none), the prebuild, a local CMake build, a local
 * node-gyp build. The answer is kept for the life of the isolate.
 */
export function loadBinding(): BindingResult {
  loaded ??= findBinding(process.env.ZEROHOP_NATIVE)
  return loaded
}

/** The folder of this platform's prebuild. */
export function prebuildName(): string {
  return `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`
}

function findBinding(chosen: string | undefined): BindingResult {
  if (chosen === 'off')
    return { binding: null, reason: 'the native addon is switched off by ZEROHOP_NATIVE=off' }
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
    'native/build/Release',
    'native/build/Debug',
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

/** In a checkout there is a script; an installed package has its sources and node-gyp's build file. */
function buildCommand(): string {
  if (existsSync(join(packageFolder, 'scripts/native/build.mjs'))) return 'npm run build:native'
  return `run \`npm install node-addon-api@8\`, then \`npx node-gyp rebuild\` in ${join(packageFolder, 'native')}`
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
