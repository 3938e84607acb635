import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** Whether onnxruntime-node's CUDA provider library, a download of its own, lies beside its binding. */
export function cudaProviderInstalled(): boolean {
  try {
    const root = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'))
    const library = process.platform === 'win32' ? 'onnxruntime_providers_cuda.dll' : 'libonnxruntime_providers_cuda.so'
    return existsSync(join(root, 'bin', 'napi-v6', process.platform, process.arch, library))
  } catch {
    return false
  }
}
