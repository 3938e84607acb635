import { resolve } from 'node:path'
import { isAnyArrayBuffer, isUint8Array } from 'node:util/types'
import { invalidArgument } from '../errors.ts'
import { filePath } from '../base/files.ts'
import type { RawValueMetadata } from '../tensor/metadata.ts'
import type { FunctionWorkerOptions } from './function-config.ts'
import type { ModelFunction } from './function-module.ts'

/** What opens a function on its thread. */
export interface FunctionSource {
  readonly inputs: readonly RawValueMetadata[]
  readonly outputs: readonly RawValueMetadata[]
  /** Whether the first dimensions count rows. */
  readonly batched: boolean
  readonly model: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly concurrency: number
  readonly workers: FunctionWorkerOptions
  /** What the application's thread runs itself; `null` for a module on threads of its own. */
  readonly run: ModelFunction | null
}

/** Where a model comes from: a file, bytes, or a function's module. */
export interface ModelSource {
  /** Absolute; '' for bytes. */
  readonly path: string
  /** A copy of what the caller gave, in memory that all threads share; `null` for a file. */
  readonly bytes: SharedArrayBuffer | null
  /** For a function, whose module is the file, if it has one; else `null`. */
  readonly function: FunctionSource | null
  /** Whether it needs not be tried, nor compiled, before it is opened: a graph of some operators. */
  readonly isSmallGraph?: boolean
}

/**
 * Checks where a model is to come from, and copies its bytes if it comes from those.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` unless exactly one of `path` and `bytes` is given, and right.
 */
export function resolveSource(
  model: string,
  { path, bytes }: { path?: unknown; bytes?: unknown },
): ModelSource {
  const wrong = (name: string, expected: string, received: unknown) =>
    invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
  if (bytes === undefined) {
    if (path === undefined) throw wrong('path', 'to be given, or bytes', path)
    const file = filePath(path)
    if (file === null) throw wrong('path', 'a path or a file: URL', path instanceof URL ? path.href : path)
    return { path: resolve(file), bytes: null, function: null }
  }
  if (path !== undefined)
    throw wrong('bytes', 'to be left out beside path: a model comes from one of them', bytes)
  if (!isUint8Array(bytes) && !isAnyArrayBuffer(bytes))
    throw wrong('bytes', 'a Uint8Array or an ArrayBuffer', bytes)
  if (bytes.byteLength === 0) throw wrong('bytes', 'at least one byte (a detached buffer has none)', bytes)
  const copy = new SharedArrayBuffer(bytes.byteLength)
  new Uint8Array(copy).set(isUint8Array(bytes) ? bytes : new Uint8Array(bytes))
  return { path: '', bytes: copy, function: null }
}
