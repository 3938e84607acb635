import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InferenceSession } from 'onnxruntime-node'

const folder = fileURLToPath(new URL('../../.cache/ort-forms', import.meta.url))

/** A model in ONNX Runtime's own format, which is made on first use: of its rows nothing can be proved, so that running it has to show all. */
export async function ortForm(path: string): Promise<string> {
  const { size, mtimeMs } = statSync(path)
  const key = createHash('sha256').update(`${path} ${size} ${mtimeMs}`).digest('hex').slice(0, 12)
  const name = join(folder, `${basename(path, '.onnx')}-${key}`)
  if (existsSync(`${name}.ort`)) return `${name}.ort`
  mkdirSync(folder, { recursive: true })
  const unfinished = `${name}-${process.pid}.ort`
  const session = await InferenceSession.create(path, {
    optimizedModelFilePath: unfinished,
    graphOptimizationLevel: 'disabled',
    logSeverityLevel: 4,
  })
  await session.release()
  renameSync(unfinished, `${name}.ort`)
  return `${name}.ort`
}
