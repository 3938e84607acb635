import { realpathSync, statSync } from 'node:fs'
import { dirname, isAbsolute, relative, resolve, sep } from 'node:path'

/** A file beside a model in which tensors lie. */
export interface ExternalFile {
  /** As the model names it. */
  readonly location: string
  /** Absolute. */
  readonly path: string
  /** Of the file; `null` where there is none, or it is not looked at. */
  readonly byteLength: number | null
  /** How many bytes at least the model's tensors need it to have. */
  readonly neededBytes: number
  /** Why the model cannot be loaded with it; `null` where nothing stands against it. */
  readonly problem: string | null
}

/** Looks for the files that a model names, by the rules of ONNX Runtime; nothing is read. */
export function findExternalFiles(model: string, needed: ReadonlyMap<string, number>): ExternalFile[] {
  return [...needed].map(([location, neededBytes]) => {
    const path = resolve(dirname(model), location)
    const wrong = (problem: string) => ({
      location,
      path,
      byteLength: null,
      neededBytes,
      problem: `${problem}, which ONNX Runtime refuses`,
    })
    // The system ends the name there, so ONNX Runtime would open another file than the one named.
    if (location.includes('\0'))
      return { location, path, byteLength: null, neededBytes, problem: 'its name has a NUL character' }
    if (isAbsolute(location)) return wrong('it is an absolute path')
    if (!isWithin(dirname(model), path)) return wrong("it leads out of the model's folder")
    const byteLength = sizeOf(path)
    if (byteLength === null)
      return { location, path, byteLength, neededBytes, problem: 'there is no such file' }
    const real = realpathSync(path)
    // A model may be a link as well, as in a cache of downloads: its files may lie where it does.
    if (
      ![realpathSync(dirname(model)), dirname(realpathSync(model))].some((folder) => isWithin(folder, real))
    )
      return wrong("it is a link that leads out of the model's folder")
    const problem =
      byteLength < neededBytes ? `it has ${byteLength} bytes, and the model needs ${neededBytes}` : null
    return { location, path, byteLength, neededBytes, problem }
  })
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return !isAbsolute(way) && way !== '..' && !way.startsWith(`..${sep}`)
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
