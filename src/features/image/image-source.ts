import { resolve } from 'node:path'
import { isArrayBuffer, isUint8Array } from 'node:util/types'
import { cut, describe, InferenceError, invalidArgument } from '../../errors.ts'
import { filePath, NotReadable, readRegularFile } from '../../base/files.ts'
import { typed } from '../../options/plain-options.ts'
import { formatOf, type ImageFormat, type ResolvedImageLimits } from '../../options/image-options.ts'

/**
 * A path, a `file:` URL (also as text), or the bytes of an encoded image. Do not change the bytes until the
 * promise settles.
 */
export type ImageSource = string | URL | Uint8Array | ArrayBuffer

/** A checked source: the path of a file, or bytes. */
export type CheckedSource = string | Uint8Array

/** A short description for errors: the path, or the kind and number of bytes. */
function describeSource(source: CheckedSource): string {
  if (typeof source === 'string') return `'${cut(source, 500)}'`
  return `${cut(describe(source), 80).replace(/\(\d+\)$/, '')} of ${source.byteLength} bytes`
}

/** Throws `ERR_INVALID_ARG` for a value that can neither name nor contain an image. */
export function checkSource(source: unknown): CheckedSource {
  try {
    if (isUint8Array(source)) return source
    // If the buffer was detached, its view is empty.
    if (isArrayBuffer(source))
      return (source as { detached?: boolean }).detached === true ? new Uint8Array() : new Uint8Array(source)
    const file = filePath(source)
    if (file !== null) return file
  } catch (error) {
    throw typed('source', error)
  }
  const received = source instanceof URL ? source.href : source
  throw invalidArgument('source', 'a path, a file: URL, a Buffer, a Uint8Array or an ArrayBuffer', received)
}

/**
 * The encoded bytes of `source`, in memory of their own. Rejects with `ERR_IMAGE_DECODE` if there are none,
 * too many, or their format is not allowed.
 */
export async function readSource(source: CheckedSource, limits: ResolvedImageLimits): Promise<Uint8Array> {
  const bytes = typeof source === 'string' ? await readFile(source, limits) : source
  checkBytes(source, bytes, limits)
  // A copy, because other threads read the bytes: if their owner resized or transferred them meanwhile, the
  // process would crash.
  return typeof source === 'string' ? bytes : Buffer.from(bytes)
}

/**
 * The format of encoded bytes. Throws `ERR_IMAGE_DECODE` if there are none, too many, or their format is not
 * allowed.
 */
export function checkBytes(
  source: CheckedSource,
  bytes: Uint8Array,
  limits: ResolvedImageLimits,
): ImageFormat {
  const { byteLength } = bytes
  if (byteLength === 0) throw undecodable(source, new Error('it is empty'))
  if (byteLength > limits.limitInputBytes) throw overBytes(source, limits, `${byteLength} bytes`)
  const format = formatOf(bytes)
  if (format === undefined)
    throw undecodable(source, new Error(`it does not start like any of ${limits.formats.join(', ')}`))
  if (!limits.formats.includes(format))
    throw overLimit(source, 'formats', `one of the formats ${limits.formats.join(', ')}`, format)
  return format
}

async function readFile(path: string, limits: ResolvedImageLimits): Promise<Uint8Array> {
  try {
    return await readRegularFile(path, limits.limitInputBytes)
  } catch (cause) {
    if (cause instanceof NotReadable && cause.code === 'EFBIG')
      throw overBytes(path, limits, cause.message.replace('it has ', ''))
    throw unreadable(path, cause as NodeJS.ErrnoException)
  }
}

function unreadable(path: string, cause: NodeJS.ErrnoException): InferenceError {
  const reason =
    cause.code === 'ENOENT'
      ? `there is no file ${describeSource(resolve(path))}. Check the path: a relative one starts at the working directory`
      : `${cut(cause.message, 500)}. Give the path of an image file, or its bytes`
  return sourceError(path, 'an image file that can be read', reason, cause)
}

function overBytes(
  source: CheckedSource,
  { limitInputBytes }: ResolvedImageLimits,
  received: string,
): InferenceError {
  return overLimit(source, 'limitInputBytes', `at most ${limitInputBytes} bytes`, received)
}

/** The error for an image over a limit; `name` is the option's name. */
export function overLimit(
  source: CheckedSource,
  name: string,
  expected: string,
  received: string,
  cause?: unknown,
): InferenceError {
  const message = `${name}: expected an image of ${expected}, received ${describeSource(source)}: ${received}. Change the option ${name} only for images you trust`
  return new InferenceError('ERR_IMAGE_DECODE', message, { name, expected, received, cause })
}

/** The error for a source that cannot be decoded. */
export function undecodable(source: CheckedSource, cause: Error, hint = ''): InferenceError {
  const lines = new Set(cause.message.slice(0, 10_000).split('\n')) // libvips repeats some of them
  const reason = [...lines].join(' ').replace(/\s+/g, ' ').trim().slice(0, 1000)
  return sourceError(source, 'an image in a format that sharp reads', `${hint}${reason}`, cause)
}

function sourceError(source: CheckedSource, expected: string, reason: string, cause: Error): InferenceError {
  const received = describeSource(source)
  return new InferenceError(
    'ERR_IMAGE_DECODE',
    `source: expected ${expected}, received ${received}: ${reason}`,
    { name: 'source', expected, received, cause },
  )
}
