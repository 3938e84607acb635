import { isSince } from '../base/platform.ts'

/** From this version of ONNX Runtime on convolutions on arm64 give back what they take. */
const mended = [1, 27] as const

let warned = false

/** Warns, once for the process, where ONNX Runtime is known to leak memory in convolutions: on arm64 before 1.27. */
export function warnOfConvolutionLeak(version: string, arch: string = process.arch): void {
  if (warned || arch !== 'arm64' || isSince(version, mended)) return
  warned = true
  const message = `ONNX Runtime ${version} leaks memory in convolutions on arm64: take onnxruntime-node 1.27 or newer for models that have any.`
  process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_ARM64_LEAK' })
}
