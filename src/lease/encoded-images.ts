import type { Clock } from '../clock.ts'
import type { CheckedOptions } from '../config/check-infer-options.ts'
import { dimsOf, type ResolvedImageOptions } from '../config/image-options.ts'
import type { InferOptions } from '../config/infer-options.ts'
import type { Feeds } from '../config/model-signature.ts'
import { typed } from '../config/plain-options.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { decodePixels, newRow } from '../image/decode-image.ts'
import { reusePixels } from '../image/pixel-buffers.ts'
import { writePixels, type PixelArray } from '../image/pixels.ts'
import type { ModelMetadata } from '../metadata.ts'
import type { PriorityLevel } from '../queue/priority-levels.ts'
import { unwatch, watch } from '../request/abort-watch.ts'
import { isTensorLike, type ElementType, type RawTensor } from '../tensor.ts'
import { kindOf } from '../typed-array.ts'

/** An encoded image that was given for an input. */
export interface EncodedImage {
  readonly name: string
  readonly bytes: Uint8Array
  readonly options: ResolvedImageOptions
}

/** The feeds of a request, some of which are encoded images, as they were at the call. */
export interface ImageFeeds {
  readonly feeds: Feeds
  readonly encoded: readonly EncodedImage[]
}

/** An image as pixels. */
export interface DecodedImage {
  readonly name: string
  readonly options: ResolvedImageOptions
  /** Writes it as a row of its input, once. */
  writeTo(elements: PixelArray): void
}

/**
 * The feeds of a request that has encoded images; `null` for one that has none.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for feeds that cannot be read.
 */
export function encodedImages(model: string, images: ReadonlyMap<string, ResolvedImageOptions>, feeds: unknown): ImageFeeds | null {
  if (typeof feeds !== 'object' || feeds === null) return null
  try {
    const encoded: EncodedImage[] = []
    for (const [name, options] of images) {
      const bytes = Object.hasOwn(feeds, name) ? (feeds as Feeds)[name] : undefined
      if (kindOf(bytes) === 'Uint8Array') encoded.push({ name, bytes: bytes as Uint8Array, options })
      else if (bytes !== undefined && !ArrayBuffer.isView(bytes) && !isTensorLike(bytes)) throw invalidArgument(`input '${name}'`, 'an encoded image as a Buffer or Uint8Array, or a Tensor', bytes, { model })
    }
    return encoded.length === 0 ? null : { feeds: { ...(feeds as Feeds) }, encoded }
  } catch (error) {
    throw typed('feeds', error, { model })
  }
}

/**
 * Decodes the images of a request. Rejects as `decodeImage` does, with the reason of the request's signal, and with `ERR_TIMEOUT` or
 * `ERR_DEADLINE` as soon as one of its limits has passed: what has not begun by then leaves the line.
 */
export async function decodeAll(images: readonly EncodedImage[], model: string, level: PriorityLevel, options: CheckedOptions, clock: Clock): Promise<DecodedImage[]> {
  const { signal, timeoutMs, deadlineMs = Infinity, requestId } = options
  const waitMs = (level.policy.timeoutAction === 'REJECT' && level.timeoutFor(timeoutMs)) || Infinity
  const limitMs = Math.min(waitMs, deadlineMs)
  if (limitMs === Infinity && images.length === 1) return [await decode(images[0]!, signal)]
  const withdrawn = new AbortController()
  const withdraw = () => withdrawn.abort(signal!.reason)
  const timer = limitMs === Infinity ? null : clock.setTimer(() => withdrawn.abort(tooLate(model, limitMs, limitMs === waitMs, requestId)), limitMs)
  if (signal?.aborted) withdraw()
  else if (signal !== undefined) watch(signal, withdraw)
  try {
    return await Promise.all(images.map((image) => decode(image, withdrawn.signal)))
  } catch (error) {
    withdrawn.abort(error) // nobody waits for the others
    if (error instanceof InferenceError && error.code === 'ERR_TIMEOUT') Error.captureStackTrace(error, decodeAll) // of whoever awaits this, not of the timer
    throw error
  } finally {
    if (timer !== null) clock.clearTimer(timer)
    if (signal !== undefined) unwatch(signal, withdraw)
  }
}

async function decode({ name, bytes, options }: EncodedImage, signal: AbortSignal | undefined): Promise<DecodedImage> {
  const rgb = await decodePixels(bytes, { ...options, signal })
  const writeTo = (elements: PixelArray) => {
    writePixels(rgb, elements, options)
    reusePixels(rgb)
  }
  return { name, options, writeTo }
}

function tooLate(model: string, limitMs: number, isTimeout: boolean, requestId: string | undefined): InferenceError {
  const details = { model, expected: `images that are decoded within ${limitMs} ms`, ...(requestId === undefined ? {} : { requestId }) }
  const message = `The images of the request for model '${model}' were not decoded within its ${limitMs} ms; give it more time (${isTimeout ? 'timeoutMs' : 'deadlineMs'}), or send less at once.`
  return isTimeout ? new InferenceError('ERR_TIMEOUT', message, details) : new InferenceError('ERR_DEADLINE', message, { ...details, estimatedMs: limitMs })
}

/** Feeds of the same images for a request that is gathered as any other. */
export function tensorsOf(decoded: readonly DecodedImage[], { inputs }: Pick<ModelMetadata, 'inputs'>): Record<string, RawTensor> {
  const tensors = decoded.map(({ name, options, writeTo }) => {
    const data = newRow(options)
    writeTo(data)
    const rank = inputs.find((input) => input.name === name)!.shape.length
    return [name, { type: options.dtype as ElementType, dims: dimsOf(options).slice(4 - rank), data } as unknown as RawTensor] as const
  })
  return Object.fromEntries(tensors)
}

/** What is left of the limits of a call after some time; one that has passed takes effect at once. */
export function leftOf(options: InferOptions<string, boolean>, elapsedMs: number): InferOptions<string, boolean> {
  const left = (limitMs: number) => Math.max(Number.MIN_VALUE, limitMs - elapsedMs)
  const { timeoutMs, deadlineMs } = options
  return { ...options, ...(timeoutMs === undefined ? {} : { timeoutMs: left(timeoutMs) }), ...(deadlineMs === undefined ? {} : { deadlineMs: left(deadlineMs) }) }
}
