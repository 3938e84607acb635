import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { loadBinding } from '../../../native/addon.ts'
import type { NativeBinding, NativeRunLoop } from '../../../native/native-binding.ts'
import { systemClock } from '../../../base/clock.ts'
import { requireFromPackage } from '../../../base/own-package.ts'

/** ONNX Runtime as the addon has opened it, or why it has not. */
export type NativeOrt =
  | { readonly binding: NativeBinding; readonly version: string; readonly reason?: undefined }
  | { readonly binding: null; readonly version?: undefined; readonly reason: string }

let opened: NativeOrt | undefined
let isOpening = false

/** Opens the library that onnxruntime-node ships, once for the isolate; never throws. */
export function openNativeOrt(): NativeOrt {
  opened ??= open()
  process.off('exit', openNativeOrt)
  return opened
}

/** Begins to open it on another thread, which takes some hundredths of a second; {@link openNativeOrt} says what is wrong with it. */
export function startNativeOrt(): void {
  const { binding } = loadBinding()
  if (opened !== undefined || isOpening || binding === null) return
  isOpening = true
  try {
    binding.startOnnxRuntime(libraryPath())
    process.once('exit', openNativeOrt) // which waits: a process that ends while a library is loaded crashes
  } catch {
    // it is not installed
  }
}

function open(): NativeOrt {
  const { binding, reason } = loadBinding()
  if (binding === null) return { binding, reason }
  try {
    return { binding, version: binding.openOnnxRuntime(libraryPath()) }
  } catch (error) {
    return { binding: null, reason: (error as Error).message }
  }
}

/** The version of the installed onnxruntime-node; `null` when that cannot be told. */
export function installedVersion(): string | null {
  try {
    const path = requireFromPackage.resolve('onnxruntime-node/package.json')
    return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version
  } catch {
    return null
  }
}

const libraryNames: Partial<Record<NodeJS.Platform, RegExp>> = {
  linux: /^libonnxruntime\.so\.1$/,
  darwin: /^libonnxruntime\.[\d.]+\.dylib$/,
  win32: /^onnxruntime\.dll$/,
}

/** @throws Error when onnxruntime-node, or its library for this platform, is not installed. */
function libraryPath(): string {
  const root = dirname(requireFromPackage.resolve('onnxruntime-node/package.json'))
  const folder = join(root, 'bin', 'napi-v6', process.platform, process.arch)
  const wanted = libraryNames[process.platform]
  const name = existsSync(folder) ? readdirSync(folder).find((file) => wanted?.test(file)) : undefined
  if (name === undefined)
    throw new Error(`onnxruntime-node has no library for ${process.platform}-${process.arch} in ${folder}`)
  return join(folder, name)
}

/** Looks at both clocks; a thread may be held up between two of them. */
const clockLooks = 16

/** What the addon's clock is ahead of `performance.now`: by the closest of some looks at both. */
export function clockOffsetMs(binding: NativeBinding): number {
  let [offsetMs, closestMs] = [0, Infinity]
  for (let look = 0; look < clockLooks; look++) {
    const beforeMs = systemClock.nowMs()
    const addonMs = binding.nowMs()
    const afterMs = systemClock.nowMs()
    if (afterMs - beforeMs < closestMs)
      [offsetMs, closestMs] = [addonMs - (beforeMs + afterMs) / 2, afterMs - beforeMs]
  }
  return offsetMs
}

const loops = new Set<NativeRunLoop>()
let addon: NativeBinding | null = null

/** Has the exit of this process (or worker thread) stop a loop, until {@link noLongerStopAtExit}. */
export function stopAtExit(binding: NativeBinding, loop: NativeRunLoop): void {
  addon = binding
  if (loops.size === 0) process.on('exit', stopLoops)
  loops.add(loop)
}

/** The loop's thread has ended. */
export function noLongerStopAtExit(loop: NativeRunLoop): void {
  if (loops.delete(loop) && loops.size === 0) process.off('exit', stopLoops)
}

/**
 * At exit no run is begun any more, and those under way are told to stop. The addon waits for them for a moment, and lets the
 * process go with whatever is left; without glibc it waits for all of them.
 */
function stopLoops(): void {
  for (const loop of loops) loop.stop()
  if (isMainThread) addon?.noteExit()
}
