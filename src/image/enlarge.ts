import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ImageKernel } from '../config/image-options.ts'
import type { ResizeAxis } from '../memory/native-jpeg.ts'

/** Interleaved 8-bit RGB. */
export interface RgbPixels {
  readonly data: Uint8Array
  readonly width: number
  readonly height: number
}

/** Where the enlarged image lies in its result. */
export interface EnlargedPlace {
  readonly data: Uint8Array
  /** Bytes from one row to the next. */
  readonly stride: number
  /** Of its first pixel. */
  readonly offset: number
}

/** Multiplications until the event loop has its turn: about a millisecond. */
const stretch = 1e6

/**
 * Enlarges an image, in each direction by an axis that begins and ends as the image does. libvips does so half a pixel of the result
 * off to the right and down, which moves boxes and keypoints; and by a cubic whichever kernel it is asked for.
 */
export async function enlarge(source: RgbPixels, columns: ResizeAxis, rows: ResizeAxis, kernel: ImageKernel, into: EnlargedPlace): Promise<void> {
  const { data, width, height } = source
  const [across, down] = [tapsOf(columns, width, kernel), tapsOf(rows, height, kernel)]
  const line = 3 * columns.count
  const wide = new Float32Array(height * line)
  const turns = new Turns()
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < columns.count; x++) {
      const at = y * line + 3 * x
      for (let tap = 0; tap < across.count; tap++) {
        const weight = across.weights[x * across.count + tap]!
        const from = 3 * (y * width + across.places[x * across.count + tap]!)
        wide[at] = wide[at]! + weight * data[from]!
        wide[at + 1] = wide[at + 1]! + weight * data[from + 1]!
        wide[at + 2] = wide[at + 2]! + weight * data[from + 2]!
      }
    }
    if (turns.areDue(line * across.count)) await nextTurn()
  }
  const sums = new Float32Array(line)
  for (let y = 0; y < rows.count; y++) {
    sums.fill(0)
    for (let tap = 0; tap < down.count; tap++) {
      const weight = down.weights[y * down.count + tap]!
      const from = down.places[y * down.count + tap]! * line
      for (let at = 0; at < line; at++) sums[at] = sums[at]! + weight * wide[from + at]!
    }
    const start = into.offset + y * into.stride
    for (let at = 0; at < line; at++) into.data[start + at] = Math.min(255, Math.max(0, Math.round(sums[at]!)))
    if (turns.areDue(line * down.count)) await nextTurn()
  }
}

class Turns {
  #done = 0

  areDue(multiplications: number): boolean {
    this.#done += multiplications
    if (this.#done < stretch) return false
    this.#done = 0
    return true
  }
}

/** Of which pixels of the source each one of the result is made; as many for each. */
interface Taps {
  readonly count: number
  readonly places: Int32Array
  /** Of one pixel they add up to 1. */
  readonly weights: Float32Array
}

function tapsOf({ start, shrink, count: pixels }: ResizeAxis, length: number, kernel: ImageKernel): Taps {
  const { radius, weightAt } = filterOf(kernel)
  // An axis that stays as it is is copied.
  const isCopied = shrink === 1 && Number.isInteger(start)
  const count = isCopied || radius === 0 ? 1 : 2 * radius
  const places = new Int32Array(pixels * count)
  const weights = new Float32Array(pixels * count)
  for (let pixel = 0; pixel < pixels; pixel++) {
    const centre = start + pixel * shrink
    const first = count === 1 ? Math.floor(centre + 0.5) : Math.floor(centre) - radius + 1
    let sum = 0
    for (let tap = 0; tap < count; tap++) {
      const place = first + tap
      const isInside = place >= 0 && place < length
      const weight = count === 1 ? 1 : isInside ? weightAt(Math.abs(place - centre)) : 0
      places[pixel * count + tap] = Math.min(length - 1, Math.max(0, place))
      weights[pixel * count + tap] = weight
      sum += weight
    }
    for (let tap = 0; tap < count; tap++) weights[pixel * count + tap] = weights[pixel * count + tap]! / sum
  }
  return { count, places, weights }
}

interface Filter {
  /** Pixels to either side; 0 for the nearest one alone. */
  readonly radius: number
  weightAt(distance: number): number
}

function filterOf(kernel: ImageKernel): Filter {
  switch (kernel) {
    case 'nearest':
      return { radius: 0, weightAt: () => 1 }
    case 'linear':
      return { radius: 1, weightAt: (distance) => Math.max(0, 1 - distance) }
    case 'lanczos2':
      return { radius: 2, weightAt: (distance) => lanczos(distance, 2) }
    case 'lanczos3':
      return { radius: 3, weightAt: (distance) => lanczos(distance, 3) }
    case 'mitchell':
      return { radius: 2, weightAt: (distance) => cubic(distance, 1 / 3, 1 / 3) }
    default: // the magic kernels as well, which are for making smaller
      return { radius: 2, weightAt: (distance) => cubic(distance, 0, 0.5) }
  }
}

function lanczos(distance: number, radius: number): number {
  if (distance >= radius) return 0
  return sinc(distance) * sinc(distance / radius)
}

function sinc(value: number): number {
  return value === 0 ? 1 : Math.sin(Math.PI * value) / (Math.PI * value)
}

/** The cubics of Mitchell and Netravali. */
function cubic(distance: number, b: number, c: number): number {
  if (distance >= 2) return 0
  if (distance < 1) return ((12 - 9 * b - 6 * c) * distance ** 3 + (-18 + 12 * b + 6 * c) * distance ** 2 + 6 - 2 * b) / 6
  return ((-b - 6 * c) * distance ** 3 + (6 * b + 30 * c) * distance ** 2 + (-12 * b - 48 * c) * distance + 8 * b + 24 * c) / 6
}
