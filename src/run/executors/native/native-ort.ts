import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { loadBinding } from '../../../native/addon.ts'
import type { NativeBinding } from '../../../native/native-binding.ts'
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
