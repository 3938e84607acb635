import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { InferenceSession } from 'onnxruntime-common'
import { invalidArgument } from '../../errors.ts'
import { filePath } from '../../base/files.ts'

/** A file that a model refers to, as a model's `sessionOptions.externalData` has it. */
interface ExternalFile {
  /** The name by which the model refers to it. */
  readonly path: string
  readonly data: Uint8Array
}

/**
 * Files of external data in whichever of the ways that onnxruntime-common knows: bytes, a `Blob`, or where the file is.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, or what reading a file threw.
 */
export async function externalFiles(
  files: NonNullable<InferenceSession.SessionOptions['externalData']>,
): Promise<ExternalFile[]> {
  if (!Array.isArray(files)) throw invalidArgument('externalData', 'an array of files', files)
  return Promise.all(
    files.map(async (file) =>
      typeof file === 'string'
        ? { path: basename(file), data: await contentOf(file) }
        : { path: file.path, data: await contentOf(file.data) },
    ),
  )
}

async function contentOf(data: unknown): Promise<Uint8Array> {
  if (data instanceof Uint8Array) return data
  if (data instanceof ArrayBuffer || data instanceof SharedArrayBuffer) return new Uint8Array(data)
  if (data instanceof Blob) return new Uint8Array(await data.arrayBuffer())
  const path = filePath(data)
  if (path === null) throw invalidArgument('externalData', 'bytes, a Blob or the path of a file', data)
  return readFile(path)
}
