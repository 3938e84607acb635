import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { InferenceError, invalidArgument } from '../errors.ts'

/** A path, a `file:` URL, or the bytes of an encoded image. Bytes must stay as they are until the promise settles. */
export type ImageSource = string | URL | Uint8Array | ArrayBuffer

/** What was given, in a few words for an error: the path, or the kind of bytes and how many. */
export function describeSource(source: ImageSource): string {
  if (typeof source === 'string') return `'${source}'`
  if (source instanceof URL) return source.href
  return `${source.constructor.name} of ${source.byteLength} bytes`
}

/** Throws `ERR_INVALID_ARG` for what cannot name or hold an image at all. */
export function checkSource(source: unknown): asserts source is ImageSource {
  const isLocalUrl = source instanceof URL && source.protocol === 'file:'
  const isBytes = source instanceof Uint8Array || source instanceof ArrayBuffer
  if ((typeof source === 'string' && source !== '') || isLocalUrl || isBytes) return
  const received = source instanceof URL ? source.href : source
  throw invalidArgument('source', 'a path, a file: URL, a Buffer, a Uint8Array or an ArrayBuffer', received)
}

/** The encoded bytes of `source`; rejects with `ERR_IMAGE_DECODE` when there are none. */
export async function readSource(source: ImageSource): Promise<Uint8Array> {
  const bytes = await bytesOf(source)
  if (bytes.byteLength === 0) throw undecodable(source, new Error('it is empty'))
  return bytes
}

async function bytesOf(source: ImageSource): Promise<Uint8Array> {
  if (source instanceof ArrayBuffer) return new Uint8Array(source)
  // The native side of sharp takes no shared memory, and other threads could write to it meanwhile.
  if (source instanceof Uint8Array) return source.buffer instanceof ArrayBuffer ? source : Uint8Array.from(source)
  try {
    return await readFile(source instanceof URL ? fileURLToPath(source) : source)
  } catch (cause) {
    throw undecodable(source, cause as Error)
  }
}

/** The typed error for a source that no image could be made of. */
export function undecodable(source: ImageSource, cause: Error): InferenceError {
  const expected = 'an image in a format that sharp reads'
  const received = describeSource(source)
  const reason = cause.message.replace(/\s+/g, ' ').trim()
  return new InferenceError('ERR_IMAGE_DECODE', `source: expected ${expected}, received ${received}: ${reason}`, {
    name: 'source',
    expected,
    received,
    cause,
  })
}
