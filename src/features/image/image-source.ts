import { resolve } from 'node:path'
import { types } from 'node:util'
import { cut, describe, InferenceError, invalidArgument } from '../../errors.ts'
import { filePath, NotReadable, readRegularFile } from '../../base/files.ts'
import { typed } from '../../options/plain-options.ts'
import { formatOf, type ImageFormat, type ResolvedImageLimits } from '../../options/image-options.ts'

/** A path, a `file:` URL (as text, too), or the bytes of an encoded image. Bytes must stay as they are until the promise settles. */
export type ImageSource = string | URL | Uint8Array | ArrayBuffer

/** A source that has been looked at: the path of a file, or bytes. */
export type CheckedSource = string | Uint8Array

/** What was given, in a few words for an error: the path, or the kind of bytes and how many. */
export function describeSource(source: CheckedSource): string {
  if (typeof source === 'string') return `'${cut(source, 500)}'`
  return `${cut(describe(source), 80).replace(/\(\d+\)$/, '')} of ${source.byteLength} bytes`
}

/** Throws `ERR_INVALID_ARG` for what cannot name or hold an image at all. */
export function checkSource(source: unknown): CheckedSource {
  try {
    if (types.isUint8Array(source)) return source
    // The buffer may be gone, which its view tells by being empty.
    if (types.isArrayBuffer(source))
      return (source as { detached?: boolean }).detached === true ? new Uint8Array() : new Uint8Array(source)
    const file = filePath(source)
    if (file !== null) return file
  } catch (error) {
    throw typed('source', error)
  }
  const received = source instanceof URL ? source.href : source
  throw invalidArgument('source', 'a path, a file: URL, a Buffer, a Uint8Array or an ArrayBuffer', received)
}

/** The encoded bytes of `source`, which nobody else has; rejects with `ERR_IMAGE_DECODE` when there are none, too many, or of a format that is not let in. */
export async function readSource(source: CheckedSource, limits: ResolvedImageLimits): Promise<Uint8Array> {
  const bytes = typeof source === 'string' ? await readFile(source, limits) : source
  checkBytes(source, bytes, limits)
  // Other threads read them for a while: bytes that their owner resizes or gives away meanwhile would end the process.
  return typeof source === 'string' ? bytes : Buffer.from(bytes)
}

/** The format of encoded bytes; throws `ERR_IMAGE_DECODE` where there are none, too many, or of a format that is not let in. */
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
    throw undecodable(source, new Error(`it does not start as one of ${limits.formats.join(', ')} does`))
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
  const expected = 'an image file that can be read'
  const received = describeSource(path)
  const reason =
    cause.code === 'ENOENT'
      ? `there is no file ${describeSource(resolve(path))}. Check the path: a relative one starts at the working directory`
      : `${cut(cause.message, 500)}. Give the path of an image file, or its bytes`
  return new InferenceError(
    'ERR_IMAGE_DECODE',
    `source: expected ${expected}, received ${received}: ${reason}`,
    {
      name: 'source',
      expected,
      received,
      cause,
    },
  )
}

function overBytes(
  source: CheckedSource,
  { limitInputBytes }: ResolvedImageLimits,
  received: string,
): InferenceError {
  return overLimit(source, 'limitInputBytes', `at most ${limitInputBytes} bytes`, received)
}

/** The typed error for an image that is over a limit; `name` is that of the option. */
export function overLimit(
  source: CheckedSource,
  name: string,
  expected: string,
  received: string,
  cause?: unknown,
): InferenceError {
  const message = `${name}: expected an image of ${expected}, received ${describeSource(source)}: ${received}. Change the option ${name} only for images you trust`
  return new InferenceError('ERR_IMAGE_DECODE', message, {
    name,
    expected,
    received,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The typed error for a source that no image could be made of. */
export function undecodable(source: CheckedSource, cause: Error, hint = ''): InferenceError {
  const expected = 'an image in a format that sharp reads'
  const received = describeSource(source)
  const reason = cause.message.slice(0, 1000).replace(/\s+/g, ' ').trim()
  return new InferenceError(
    'ERR_IMAGE_DECODE',
    `source: expected ${expected}, received ${received}: ${hint}${reason}`,
    {
      name: 'source',
      expected,
      received,
      cause,
    },
  )
}
