import { isSharedArrayBuffer } from 'node:util/types'
import { loadBinding } from '../../native/addon.ts'
import type { KernelArray } from '../../native/native-binding.ts'
import type { ImageDataType, ResolvedImageOptions } from '../../options/image-options.ts'
import { toFloat16Bits } from '../../tensor/small-floats.ts'

/** What a row of pixels can be written into; `float16` uses `Uint16Array`, or `Float16Array` where there is one. */
export type PixelArray = Float32Array | Float64Array | Uint16Array | Uint8Array | Int8Array | Int32Array

interface PixelArrayConstructor {
  new (length: number): PixelArray
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): PixelArray
}

export const ARRAY_OF: Readonly<Record<ImageDataType, PixelArrayConstructor>> = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  uint8: Uint8Array,
  int8: Int8Array,
  int32: Int32Array,
}

/** Luma of ITU-R 601 in 1/65536, with which Pillow converts to 'L'; they add up to 65536, so grey stays what it is. */
const LUMA_RED = 19595
const LUMA_GREEN = 38470
const LUMA_BLUE = 7471

/**
 * Writes `rgb` (8-bit, interleaved) into `row` in the wanted channels, layout and type. A pixel has 256 values, so the
 * arithmetic is done 256 times per channel and the loops only look up.
 */
export function writePixels(rgb: Uint8Array, row: PixelArray, options: ResolvedImageOptions): void {
  const table = tableOf(options)
  if (writePlanesNatively(rgb, row, table, options)) return
  const channels = options.mean.map((_, channel) =>
    bitsOf(table.subarray(256 * channel, 256 * (channel + 1))),
  )
  const [first, second = first, third = first] = channels as [Bits, Bits?, Bits?]
  const bits = bitsOf(row)
  if (options.channels === 'gray') return writeGray(rgb, bits, first)
  const write = options.layout === 'nhwc' ? writeInterleaved : writePlanes
  write(rgb, bits, first, second, third, options.channels === 'bgr' ? 2 : 0)
}

type Bits = Uint8Array | Uint16Array | Int32Array | Float64Array

/**
 * The same memory as one of four array types, by width: V8 compiles a loop over up to four kinds of arrays in place, and
 * makes it ten times slower from the fifth on. The loops copy elements and never look at their value.
 */
function bitsOf({ buffer, byteOffset, length, BYTES_PER_ELEMENT }: PixelArray): Bits {
  if (BYTES_PER_ELEMENT === 4) return new Int32Array(buffer, byteOffset, length)
  if (BYTES_PER_ELEMENT === 1) return new Uint8Array(buffer, byteOffset, length)
  if (BYTES_PER_ELEMENT === 2) return new Uint16Array(buffer, byteOffset, length)
  return new Float64Array(buffer, byteOffset, length)
}

/** `source` is the channel of the pixel that comes first: 0 for RGB, 2 for BGR. */
function writeInterleaved(
  rgb: Uint8Array,
  row: Bits,
  first: Bits,
  second: Bits,
  third: Bits,
  source: number,
): void {
  const last = 2 - source
  for (let at = 0; at < row.length; at += 3) {
    row[at] = first[rgb[at + source] as number] as number
    row[at + 1] = second[rgb[at + 1] as number] as number
    row[at + 2] = third[rgb[at + last] as number] as number
  }
}

function writePlanes(
  rgb: Uint8Array,
  row: Bits,
  first: Bits,
  second: Bits,
  third: Bits,
  source: number,
): void {
  const plane = row.length / 3
  const last = 2 - source
  for (let at = 0, from = 0; at < plane; at++, from += 3) {
    row[at] = first[rgb[from + source] as number] as number
    row[at + plane] = second[rgb[from + 1] as number] as number
    row[at + 2 * plane] = third[rgb[from + last] as number] as number
  }
}

function writeGray(rgb: Uint8Array, row: Bits, table: Bits): void {
  for (let at = 0, from = 0; at < row.length; at++, from += 3) {
    const red = rgb[from] as number
    const green = rgb[from + 1] as number
    const blue = rgb[from + 2] as number
    row[at] = table[(LUMA_RED * red + LUMA_GREEN * green + LUMA_BLUE * blue + 32768) >> 16] as number
  }
}

const tables = new WeakMap<ResolvedImageOptions, PixelArray>()

/** What each value of a pixel becomes, channel by channel; kept for options that are used again. */
function tableOf(options: ResolvedImageOptions): PixelArray {
  let table = tables.get(options)
  if (table === undefined) tables.set(options, (table = makeTable(options)))
  return table
}

function makeTable({ dtype, scale, mean, std }: ResolvedImageOptions): PixelArray {
  const table = new ARRAY_OF[dtype](256 * mean.length)
  const encode = ENCODE[dtype]
  for (let channel = 0; channel < mean.length; channel++) {
    for (let pixel = 0; pixel < 256; pixel++)
      table[256 * channel + pixel] = encode((pixel * scale - mean[channel]!) / std[channel]!)
  }
  return table
}

const asIs = (value: number): number => value
const within = (low: number, high: number) => (value: number) =>
  Math.min(high, Math.max(low, Math.round(value)))

const ENCODE: Readonly<Record<ImageDataType, (value: number) => number>> = {
  float32: asIs,
  float64: asIs,
  float16: toFloat16Bits,
  uint8: within(0, 255),
  int8: within(-128, 127),
  int32: within(-(2 ** 31), 2 ** 31 - 1),
}

/**
 * Has the addon write three planes of floats, many values at once; false where there is no addon, or it has nothing for what is
 * wanted. The result is that of the table in every bit.
 */
function writePlanesNatively(
  rgb: Uint8Array,
  row: KernelArray,
  table: KernelArray,
  options: ResolvedImageOptions,
): boolean {
  const { channels, layout, dtype, scale, mean, std } = options
  if (channels === 'gray' || layout !== 'nchw' || (dtype !== 'float32' && dtype !== 'float16')) return false
  const { binding } = loadBinding()
  if (binding === null || isSharedArrayBuffer(row.buffer)) return false
  const factors = Float64Array.from([
    ...std.map((divisor) => scale / divisor),
    ...mean.map((value, channel) => -value / std[channel]!),
  ])
  binding.writePlanes(rgb, row, table, factors, channels === 'bgr')
  return true
}

/** Most bytes that are kept: those of 27 images of 224 x 224 at once, or one of 1182 x 1182. */
const mostBytes = 4 * 2 ** 20
/** Most of them: each is looked at to find one of the right size, and small ones weigh more than their bytes. */
const mostKept = 64

const spare: Buffer[] = []
/** Those in somebody's hands. sharp's pixels are none: nothing is written there again. */
const taken = new WeakSet<Buffer>()
let spareBytes = 0

/**
 * Memory for the pixels of an image, which are written elsewhere as soon as they are there: made anew for each, they would be the garbage
 * that has V8 collect its heap most often. What lies there is of an earlier image, and all of it is to be written.
 */
export function takePixels(byteLength: number): Buffer {
  const at = spare.findLastIndex((pixels) => pixels.byteLength === byteLength)
  const pixels = at === -1 ? Buffer.allocUnsafeSlow(byteLength) : spare.splice(at, 1)[0]!
  if (at !== -1) spareBytes -= byteLength
  taken.add(pixels)
  return pixels
}

/** Pixels that were written elsewhere, and that nobody has any more; not for those of an image that failed, which may be written still. */
export function reusePixels(pixels: Buffer): void {
  if (!taken.delete(pixels) || pixels.byteLength > mostBytes) return
  spareBytes += pixels.byteLength
  spare.push(pixels)
  while (spareBytes > mostBytes || spare.length > mostKept) spareBytes -= spare.shift()!.byteLength
}
