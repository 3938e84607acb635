import { statSync } from 'node:fs'
import { dirname, isAbsolute, relative, resolve, sep } from 'node:path'

/** A file beside a model in which tensors lie. */
export interface ExternalFile {
  /** As the model names it. */
  readonly location: string
  /** Absolute. */
  readonly path: string
  /** Of the file; `null` where there is none. */
  readonly byteLength: number | null
  /** How many bytes at least the model's tensors need it to have. */
  readonly neededBytes: number
  /** Why the model cannot be loaded with it; `null` where nothing stands against it. */
  readonly problem: string | null
}

/** Looks for the files that a model names; nothing is read. */
export function findExternalFiles(model: string, needed: ReadonlyMap<string, number>): ExternalFile[] {
  return [...needed].map(([location, neededBytes]) => ({ location, neededBytes, ...found(model, location, neededBytes) }))
}

function found(model: string, location: string, neededBytes: number): Pick<ExternalFile, 'path' | 'byteLength' | 'problem'> {
  const folder = dirname(model)
  const path = resolve(folder, location)
  const way = relative(folder, path)
  if (isAbsolute(location) || isAbsolute(way) || way === '..' || way.startsWith(`..${sep}`)) {
    return { path, byteLength: null, problem: "leads out of the model's folder, which ONNX Runtime refuses" }
  }
  const byteLength = sizeOf(path)
  if (byteLength === null) return { path, byteLength, problem: 'there is no such file' }
  const problem = byteLength < neededBytes ? `it has ${byteLength} bytes, and the model needs ${neededBytes}` : null
  return { path, byteLength, problem }
}

/** `null` for what is no file. */
function sizeOf(path: string): number | null {
  try {
    const stats = statSync(path)
    return stats.isFile() ? stats.size : null
  } catch {
    return null // not there, or no name that a file can have
  }
}
