import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { requireFromPackage } from '../base/own-package.ts'

/** Whether onnxruntime-node's CUDA provider library, a download of its own, lies beside its binding. */
export function cudaProviderInstalled(): boolean {
  try {
    const root = dirname(requireFromPackage.resolve('onnxruntime-node/package.json'))
    const library =
      process.platform === 'win32' ? 'onnxruntime_providers_cuda.dll' : 'libonnxruntime_providers_cuda.so'
    return existsSync(join(root, 'bin', 'napi-v6', process.platform, process.arch, library))
  } catch {
    return false
  }
}
