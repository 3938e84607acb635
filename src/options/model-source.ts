import { resolve } from 'node:path'
import { isAnyArrayBuffer, isUint8Array } from 'node:util/types'
import { filePath } from '../base/files.ts'
import { invalidConfig } from '../errors.ts'
import type { RawValueMetadata } from '../tensor/metadata.ts'
import type { FunctionWorkerOptions } from './function-config.ts'
import type { ModelFunction } from './function-module.ts'

/** A model in a file. */
export interface ModelFile {
  /**
   * The `.onnx` (or `.ort`) file, as a path or a `file:` URL (also as text). External data files are resolved next to
   * it.
   */
  path: string | URL
  bytes?: undefined
}

/** A model in memory. */
export interface ModelBytes {
  path?: undefined
  /**
   * The contents of such a file. `load()` copies them once, so you may change or drop them afterwards. All instances
   * share the copy, which is kept until the model is released, to reopen it after a worker dies. While a session opens,
   * its worker holds a second copy. Pass external data in `sessionOptions.externalData`.
   */
  bytes: Uint8Array | ArrayBuffer
}

/** How a function is opened on its thread. */
export interface FunctionSource {
  readonly inputs: readonly RawValueMetadata[]
  readonly outputs: readonly RawValueMetadata[]
  /** Whether the first dimensions count rows. */
  readonly batched: boolean
  readonly model: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly concurrency: number
  readonly workers: FunctionWorkerOptions
  /** The function, if the application's thread runs it; `null` for a module on threads of its own. */
  readonly run: ModelFunction | null
}

/** The source of a model: a file, bytes, or a function's module. */
export interface ModelSource {
  /** Absolute; '' for bytes. */
  readonly path: string
  /** A copy of the caller's bytes, in memory that all threads share; `null` for a file. */
  readonly bytes: SharedArrayBuffer | null
  /** For a function, whose module, if any, is the file; else `null`. */
  readonly function: FunctionSource | null
  /** Whether it skips the trial and compilation before it is opened: a graph of a few operators. */
  readonly isSmallGraph?: boolean
}

/**
 * Checks the source of a model, and copies its bytes.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` unless exactly one valid `path` or `bytes` is given.
 */
export function resolveSource(
  model: string,
  { path, bytes }: { path?: unknown; bytes?: unknown },
): ModelSource {
  const wrong = (name: string, expected: string, received: unknown) =>
    invalidConfig(model, name, expected, received)
  if (bytes === undefined) {
    if (path === undefined) throw wrong('path', 'to be given, or bytes', path)
    const file = filePath(path)
    if (file === null) throw wrong('path', 'a path or a file: URL', path instanceof URL ? path.href : path)
    return { path: resolve(file), bytes: null, function: null }
  }
  if (path !== undefined)
    throw wrong('bytes', 'to be omitted beside path: a model comes from one of them', bytes)
  if (!isUint8Array(bytes) && !isAnyArrayBuffer(bytes))
    throw wrong('bytes', 'a Uint8Array or an ArrayBuffer', bytes)
  if (bytes.byteLength === 0) throw wrong('bytes', 'at least one byte (a detached buffer has none)', bytes)
  const copy = new SharedArrayBuffer(bytes.byteLength)
  new Uint8Array(copy).set(isUint8Array(bytes) ? bytes : new Uint8Array(bytes))
  return { path: '', bytes: copy, function: null }
}
