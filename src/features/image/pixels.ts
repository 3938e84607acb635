import { isSharedArrayBuffer } from 'node:util/types'
import { loadBinding } from '../../native/addon.ts'
import type { KernelArray } from '../../native/native-binding.ts'
import type { ImageDataType, ResolvedImageOptions } from '../../options/image-options.ts'
import { toSmallFloat } from '../../tensor/small-floats.ts'

/**
 * Arrays that a row of pixels can be written into. `float16` uses `Uint16Array`, or `Float16Array` where
 * available.
 */
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

/**
 * Luma of ITU-R 601 in 1/65536, as Pillow uses for its conversion to 'L'. The weights sum to 65536, so grey
 * stays unchanged.
 */
const LUMA_RED = 19595
const LUMA_GREEN = 38470
const LUMA_BLUE = 7471

/**
 * Writes `rgb` (8-bit, interleaved) into `row`, in the configured channels, layout and type. A pixel
 * component has 256 values, so each channel's arithmetic is done 256 times into a table, and the loops only
 * look values up.
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
 * The same memory as one of four array types, by element width. V8 inlines a loop for up to four kinds of
 * arrays, and is ten times slower from the fifth on. The loops copy elements and do not interpret them.
 */
function bitsOf({ buffer, byteOffset, length, BYTES_PER_ELEMENT }: PixelArray): Bits {
  if (BYTES_PER_ELEMENT === 4) return new Int32Array(buffer, byteOffset, length)
  if (BYTES_PER_ELEMENT === 1) return new Uint8Array(buffer, byteOffset, length)
  if (BYTES_PER_ELEMENT === 2) return new Uint16Array(buffer, byteOffset, length)
  return new Float64Array(buffer, byteOffset, length)
}

/** `source` is the first channel of the result's pixels: 0 for RGB, 2 for BGR. */
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

/** The table of normalised values, channel by channel. It is cached per options object. */
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
  float16: (value) => toSmallFloat('float16', value),
  uint8: within(0, 255),
  int8: within(-128, 127),
  int32: within(-(2 ** 31), 2 ** 31 - 1),
}

/**
 * Lets the addon write three float planes with SIMD. Returns false if there is no addon, or it does not
 * support the options. The result equals the table's in every bit.
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

/** Most bytes kept: 27 images of 224 x 224, or one of 1182 x 1182. */
const mostBytes = 4 * 2 ** 20
/**
 * Most buffers kept. Finding one of the right size is a linear search, and small buffers cost more than their
 * bytes.
 */
const mostKept = 64

const spare: Buffer[] = []
/** Buffers in use. sharp's own buffers are never in this set, as they must not be reused. */
const taken = new WeakSet<Buffer>()
let spareBytes = 0

/**
 * A buffer for the pixels of an image, which are soon written elsewhere. Allocating one per image would cause
 * most of V8's garbage collections. It contains old data: overwrite all of it.
 */
export function takePixels(byteLength: number): Buffer {
  const at = spare.findLastIndex((pixels) => pixels.byteLength === byteLength)
  const pixels = at === -1 ? Buffer.allocUnsafeSlow(byteLength) : spare.splice(at, 1)[0]!
  if (at !== -1) spareBytes -= byteLength
  taken.add(pixels)
  return pixels
}

/**
 * Returns a buffer whose pixels have been written elsewhere and that is no longer used. Do not return that of
 * a failed image: it may still be written.
 */
export function reusePixels(pixels: Buffer): void {
  if (!taken.delete(pixels) || pixels.byteLength > mostBytes) return
  spareBytes += pixels.byteLength
  spare.push(pixels)
  while (spareBytes > mostBytes || spare.length > mostKept) spareBytes -= spare.shift()!.byteLength
}
