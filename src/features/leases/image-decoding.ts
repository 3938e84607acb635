import type { Clock } from '../../base/clock.ts'
import { dimsOf, type ResolvedImageOptions } from '../../options/image-options.ts'
import type { Feeds } from '../../options/model-signature.ts'
import { typed } from '../../options/plain-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import { newRow, tookTooLong } from '../image/decode-image.ts'
import { DecodeLine, type DecodeTask, imageConcurrency, within } from '../image/decode-queue.ts'
import { imageKind, type ImageKind } from '../image/image-kind.ts'
import { checkBytes } from '../image/image-source.ts'
import { type PixelArray, reusePixels, writePixels } from '../image/pixels.ts'
import { decodeRgb } from '../image/rgb-pipeline.ts'
import { spreadOfSumMs } from '../../schedule/answer-estimate.ts'
import { outdatedTimes, Recent, Spread } from '../../schedule/estimates.ts'
import type { PriorityLevel } from '../../request/infer-request.ts'
import type { Preparation, Prepared, ReadyEstimate, UnreadyRequest } from '../../request/participants.ts'
import type { ModelCounts } from '../../observe/model-counts.ts'
import type { FeedParser } from '../../request/feeds.ts'
import {
  isTensorLike,
  type ElementType,
  type TensorData,
  type TensorLike,
  kindOf,
} from '../../tensor/tensor.ts'
import type { HeldRows } from './held-rows.ts'
import type { DecodedImage, Leases } from './leases.ts'

/** A request with encoded images as inputs. */
interface ImageFeeds {
  /** The feeds at the time of the call, with a placeholder of the right size for each image. */
  readonly feeds: Feeds
  readonly preparation: Preparation
}

/** An input that accepts encoded images. */
interface ImageInput {
  readonly name: string
  readonly index: number
  readonly options: ResolvedImageOptions
  /** The placeholder of a request until its image is decoded. It is never written. */
  standIn: TensorLike | null
}

/** What images are decoded for. */
interface DecodedFor {
  readonly model: string
  /** The inputs, in the form that requests have. */
  readonly inputs: readonly { readonly name: string; readonly shape: readonly unknown[] }[]
  readonly images: ReadonlyMap<string, ResolvedImageOptions>
  readonly optionalInputs: readonly string[]
  readonly parser: Pick<FeedParser, 'check'>
  readonly counts: ModelCounts
  readonly clock: Clock
  /** Leases for rows that consist of images only; `null` if there are none. */
  leases(): Leases | null
}

/** Decodes the encoded images of one model's requests while those wait in its queue. */
export class ImageDecoding {
  readonly line: DecodeLine
  readonly clock: Clock
  readonly times = new DecodeTimes()
  readonly #for: DecodedFor
  readonly #inputs: readonly ImageInput[]
  #lastKinds: readonly ImageKind[] = []
  #came = 0

  constructor(decodedFor: DecodedFor) {
    const { clock, images, inputs } = decodedFor
    this.#for = decodedFor
    this.clock = clock
    this.line = new DecodeLine(() => clock.nowMs())
    this.#inputs = inputs.flatMap(({ name }, index) => {
      const options = images.get(name)
      return options === undefined ? [] : [{ name, index, options, standIn: null }]
    })
  }

  /**
   * Reads feeds with encoded images; `null` for feeds without any.
   *
   * @throws InferenceError `ERR_INVALID_ARG` for feeds that cannot be read; `ERR_IMAGE_DECODE` if the first
   * bytes are not those of an image.
   */
  read(feeds: unknown): ImageFeeds | null {
    if (typeof feeds !== 'object' || feeds === null) return null
    const { model } = this.#for
    const encoded: EncodedImage[] = []
    let standIns: { -readonly [Name in keyof Feeds]: Feeds[Name] }
    try {
      for (const input of this.#inputs) {
        const { name } = input
        const bytes = Object.hasOwn(feeds, name) ? (feeds as Feeds)[name] : undefined
        if (kindOf(bytes) === 'Uint8Array')
          encoded.push({ input, bytes: bytes as Uint8Array, kind: this.#kindOf(input, bytes as Uint8Array) })
        else if (bytes !== undefined && !ArrayBuffer.isView(bytes) && !isTensorLike(bytes))
          throw invalidArgument(
            `input '${name}'`,
            'an encoded image as a Buffer or Uint8Array, or a Tensor',
            bytes,
            { model },
          )
      }
      if (encoded.length === 0) return null
      standIns = { ...(feeds as Feeds) }
    } catch (error) {
      throw typed('feeds', error, { model })
    }
    const isAll = this.#isAll(encoded, Object.keys(standIns).length)
    for (const { input } of encoded)
      standIns[input.name] = (input.standIn ??= this.#tensorOf(input, newRow(input.options))) as Feeds[string]
    return { feeds: standIns, preparation: new ImagePreparation(this, encoded, isAll) }
  }

  #kindOf({ name, options }: ImageInput, bytes: Uint8Array): ImageKind {
    try {
      return imageKind(bytes, checkBytes(bytes, bytes, options))
    } catch (error) {
      throw this.named(name, error)
    }
  }

  /**
   * Estimates when the images of a new request would be decoded.
   *
   * @param decides whether the estimate decides about admission. The best speed so far then counts for an idle decoder. Otherwise the
   * end of a slow phase would never be noticed.
   * @param kinds kinds of the images. Default: those of the last request.
   */
  estimate(
    level: PriorityLevel,
    decides: boolean,
    kinds: readonly ImageKind[] = this.#lastKinds,
  ): ReadyEstimate {
    const { isIdle } = this.line
    const { mostMs, inMs } = this.#togetherMs(kinds, decides && isIdle)
    const waitMs = this.line.waitMs(level.level)
    const spreadMs = this.#spreadMs(mostMs, waitMs + mostMs)
    return { inMs: waitMs + inMs, spreadMs, isNext: isIdle }
  }

  /** What the longest of some images takes, and all of them, in milliseconds. */
  #togetherMs(kinds: readonly ImageKind[], atBest: boolean): { mostMs: number; inMs: number } {
    const nowMs = this.clock.nowMs()
    let [sumMs, mostMs] = [0, 0]
    for (const kind of kinds) {
      const ms = atBest ? this.times.leastMs(kind, nowMs) : this.times.usualMs(kind)
      sumMs += ms
      mostMs = Math.max(mostMs, ms)
    }
    return { mostMs, inMs: Math.max(mostMs, sumMs / imageConcurrency()) }
  }

  /** Estimates when all images that came so far will be decoded. */
  estimateAll(): ReadyEstimate {
    const inMs = this.line.doneInMs
    const mostMs = Math.max(0, ...this.#lastKinds.map((kind) => this.times.usualMs(kind)))
    return { inMs, spreadMs: this.#spreadMs(mostMs, inMs), isNext: false }
  }

  /** The spread of decodings that take `allMs` together, the longest of them `mostMs`. */
  #spreadMs(mostMs: number, allMs: number): number {
    return mostMs === 0 ? 0 : spreadOfSumMs(allMs / mostMs, this.times.p99Ms(mostMs) - mostMs, allMs)
  }

  // ── for its requests ──
  /** Names the input and the model in an error of decoding, instead of `source`. */
  named(input: string, error: unknown): unknown {
    if (!(error instanceof InferenceError) || error.code !== 'ERR_IMAGE_DECODE') return error
    const { model } = this.#for
    const { message, argument, expected, received, cause } = error
    const where = `input '${input}'`
    return new InferenceError(
      'ERR_IMAGE_DECODE',
      `${where} of model '${model}': ${message.replace(/^source: /, '')}`,
      { model, name: argument === 'source' ? where : argument!, expected, received, cause },
    )
  }

  /** What decoding some images takes at best, in milliseconds. */
  leastMs(kinds: readonly ImageKind[]): number {
    return this.#togetherMs(kinds, true).inMs
  }

  /** Counts a request whose images are to be decoded; returns how many came before it. */
  came(kinds: readonly ImageKind[]): number {
    this.#lastKinds = kinds
    return this.#came++
  }

  /**
   * If images are all of a request, writes them directly into a batch's memory, and returns the rows there.
   */
  deliver(
    { data }: UnreadyRequest,
    images: readonly DecodedImage[],
    isAll: boolean,
    beganAtMs: number,
  ): HeldRows | null {
    const { clock, counts } = this.#for
    const rows = isAll ? this.#rowsWith(images) : null
    try {
      const tensors = rows === null ? null : rows.take()
      for (const { name, options, writeTo } of images) {
        const input = this.#inputs.find((each) => each.name === name)!
        let tensor: TensorLike
        if (tensors !== null) tensor = tensors[name]!
        else {
          const row = newRow(options)
          writeTo(row)
          tensor = this.#tensorOf(input, row)
        }
        ;(data as unknown[])[input.index] = this.#for.parser.check(input.index, tensor)
      }
    } catch (error) {
      rows?.settled()
      throw error
    }
    counts.decoded(clock.nowMs() - beganAtMs)
    return rows
  }

  #rowsWith(images: readonly DecodedImage[]): HeldRows | null {
    const leases = this.#for.leases()
    if (leases === null) return null
    const rows = leases.takeWith(images)
    leases.end(rows, 'inferred')
    return rows
  }

  /** Whether the images are all inputs of the request, and all that the model needs. */
  #isAll(encoded: readonly EncodedImage[], given: number): boolean {
    const { inputs, optionalInputs } = this.#for
    return (
      given === encoded.length &&
      inputs.every(
        ({ name }) => encoded.some(({ input }) => input.name === name) || optionalInputs.includes(name),
      )
    )
  }

  #tensorOf({ index, options }: ImageInput, data: PixelArray): TensorLike {
    const rank = this.#for.inputs[index]!.shape.length
    return {
      type: options.dtype as ElementType,
      dims: dimsOf(options).slice(4 - rank),
      data: data as TensorData,
    }
  }
}

/** An encoded image given for an input. */
interface EncodedImage {
  readonly input: ImageInput
  readonly bytes: Uint8Array
  readonly kind: ImageKind
}

/** The encoded images of one request. */
class ImagePreparation implements Preparation {
  readonly sources: ReadonlyMap<number, Uint8Array>
  readonly #decoding: ImageDecoding
  readonly #images: readonly EncodedImage[]
  readonly #kinds: readonly ImageKind[]
  readonly #isAll: boolean
  /** Tasks in the line. */
  readonly #waiting = new Set<DecodeTask>()
  readonly #decoded: DecodedImage[] = []
  #request: UnreadyRequest | null = null
  #prepared: Prepared | null = null
  #beganAtMs = 0
  #hasBegun = false

  constructor(decoding: ImageDecoding, images: readonly EncodedImage[], isAll: boolean) {
    this.#decoding = decoding
    this.#images = images
    this.#isAll = isAll
    this.#kinds = images.map(({ kind }) => kind)
    this.sources = new Map(images.map(({ input, bytes }) => [input.index, bytes]))
  }

  owned(): Preparation {
    const images = this.#images.map((image) => ({ ...image, bytes: Uint8Array.from(image.bytes) }))
    return new ImagePreparation(this.#decoding, images, this.#isAll)
  }

  estimate(level: PriorityLevel): ReadyEstimate {
    return this.#decoding.estimate(level, true, this.#kinds)
  }

  begin(request: UnreadyRequest, prepared: Prepared): void {
    const { line, clock, times } = this.#decoding
    this.#request = request
    this.#prepared = prepared
    this.#beganAtMs = clock.nowMs()
    const order = this.#decoding.came(this.#kinds)
    for (const image of this.#images) {
      const task: DecodeTask = {
        heapIndex: -1,
        level: request.level.level,
        order,
        estimatedMs: times.usualMs(image.kind),
        run: () => this.#decode(task, image),
      }
      this.#waiting.add(task)
      line.add(task) // begins at once if there is a place
      if (this.#prepared === null) return
    }
  }

  cancel(): void {
    this.#prepared = null
    for (const task of this.#waiting) this.#decoding.line.remove(task)
    this.#waiting.clear()
  }

  /** Resolves when the decoder has a place free again. */
  async #decode(task: DecodeTask, image: EncodedImage): Promise<void> {
    this.#waiting.delete(task)
    const prepared = this.#prepared
    if (prepared === null) return
    if (!this.#hasBegun && !prepared.begins(this.#decoding.leastMs(this.#kinds))) return
    this.#hasBegun = true
    const { bytes, input } = image
    const { options } = input
    const { clock } = this.#decoding
    const startMs = clock.nowMs()
    const work = decodeRgb(bytes, options)
    const inTime = within(work, options.timeoutMs, () => tookTooLong(bytes, options))
    inTime.then(
      (rgb) => this.#done(image, rgb, clock.nowMs() - startMs),
      (error: unknown) => this.#failed(this.#decoding.named(input.name, error)),
    )
    await work.catch(() => {})
  }

  #done(image: EncodedImage, rgb: Buffer, ms: number): void {
    this.#decoding.times.observe(image.kind, ms, this.#decoding.clock.nowMs())
    if (this.#prepared === null) return reusePixels(rgb)
    const { name, options } = image.input
    const writeTo = (elements: PixelArray) => {
      writePixels(rgb, elements, options)
      reusePixels(rgb)
    }
    this.#decoded.push({ name, options, writeTo })
    if (this.#decoded.length < this.#images.length) return
    try {
      const rows = this.#decoding.deliver(this.#request!, this.#decoded, this.#isAll, this.#beganAtMs)
      this.#prepared.ready(rows)
    } catch (error) {
      this.#failed(error) // for example out of memory
    }
  }

  #failed(error: unknown): void {
    const prepared = this.#prepared
    this.cancel() // removes the other tasks from the line
    prepared?.failed(error)
  }
}

/** Decodings of one size that say what they take at present. */
const decodeWindow = 9
/** Decodings of a size until which the fastest says what is usual: the first ones are slow, and none is fast by chance. */
const fewDecodings = 5
/** Steps of size to the doubling. */
const decodeSteps = 2

/** What is to be decoded, as far as its time depends on it. */
interface Sized {
  readonly name: string
  readonly size: number
}

/** What decodings of one size took. */
interface SizeTimes {
  readonly recent: Recent
  fastestMs: number
}

/**
 * How long decoding takes, by kind and size of what is decoded. Of a size that has not been seen no more is expected than of the next
 * smaller one, and of a kind none of which was seen, nothing: what is refused by a guess cannot tell that it was wrong.
 */
export class DecodeTimes {
  /** By kind and step of size. */
  readonly #kinds = new Map<string, Map<number, SizeTimes>>()
  readonly #spread = new Spread()
  #lastAtMs = 0

  observe(sized: Sized, ms: number, nowMs: number): void {
    const usualMs = this.usualMs(sized)
    let sizes = this.#kinds.get(sized.name)
    if (sizes === undefined) this.#kinds.set(sized.name, (sizes = new Map<number, SizeTimes>()))
    const step = stepOf(sized)
    let own = sizes.get(step)
    if (own === undefined) sizes.set(step, (own = { recent: new Recent(decodeWindow), fastestMs: Infinity }))
    const { recent } = own
    if (recent.count >= fewDecodings) this.#spread.add(ms, usualMs)
    recent.add(ms)
    own.fastestMs = Math.min(ms, own.fastestMs)
    this.#lastAtMs = nowMs
  }

  /** What one usually takes at present, in milliseconds; 0 when nothing like it was seen. */
  usualMs(sized: Sized): number {
    const sizes = this.#kinds.get(sized.name)
    if (sizes === undefined) return 0
    const step = stepOf(sized)
    const own = sizes.get(step)
    if (own !== undefined) return usualOf(own)
    const known = [...sizes.keys()].sort((a, b) => a - b)
    const below = known.findLast((other) => other < step)
    if (below !== undefined) return usualOf(sizes.get(below)!)
    const [smallest = step] = known
    return usualOf(sizes.get(smallest)!) * 2 ** ((step - smallest) / decodeSteps)
  }

  /** The fastest decoding of this kind and about this size, in milliseconds; 0 if fewer than five are known, or only outdated ones. */
  leastMs(sized: Sized, nowMs: number): number {
    const own = this.#kinds.get(sized.name)?.get(stepOf(sized))
    if (own === undefined || own.recent.count < fewDecodings) return 0
    const isOutdated = nowMs - this.#lastAtMs > outdatedTimes * own.fastestMs
    return isOutdated ? 0 : own.fastestMs
  }

  /** What 99 of 100 stay below that usually take `usualMs`, in milliseconds. */
  p99Ms(usualMs: number): number {
    return Math.max(usualMs, this.#spread.p99Ms(usualMs, true)) // a busy core slows all images in proportion
  }
}

function usualOf({ recent }: SizeTimes): number {
  return recent.quantile(recent.count < fewDecodings ? 0 : 0.5)
}

function stepOf({ size }: Sized): number {
  return Math.round(decodeSteps * Math.log2(Math.max(1, size)))
}
