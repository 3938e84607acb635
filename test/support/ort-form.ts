import { existsSync, renameSync } from 'node:fs'
import { InferenceSession } from 'onnxruntime-node'

/** A model in ONNX Runtime's own format, beside the file: of its rows nothing can be proved, so that running it has to show all. */
export async function ortForm(path: string): Promise<string> {
  const made = path.replace(/\.onnx$/, '.ort')
  if (existsSync(made)) return made
  const own = path.replace(/\.onnx$/, `-${process.pid}.ort`)
  const session = await InferenceSession.create(path, { optimizedModelFilePath: own, graphOptimizationLevel: 'disabled', logSeverityLevel: 4 })
  await session.release()
  renameSync(own, made)
  return made
}
