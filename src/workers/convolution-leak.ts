/** From this version of ONNX Runtime on convolutions on arm64 give back what they take. */
const mended = { major: 1, minor: 27 }

let warned = false

/** Warns, once for the process, where ONNX Runtime is known to leak memory in convolutions: on arm64 before 1.27. */
export function warnOfConvolutionLeak(version: string, arch: string = process.arch): void {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (warned || arch !== 'arm64' || major > mended.major || (major === mended.major && minor >= mended.minor)) return
  warned = true
  const message = `ONNX Runtime ${version} leaks memory in convolutions on arm64: take onnxruntime-node 1.27 or newer for models that have any.`
  process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_ARM64_LEAK' })
}
