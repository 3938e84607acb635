import { availableMemory } from '../../config/available-memory.ts'
import { toFloat16Bits } from '../../float16.ts'
import type { ElementType, FeedValue, TensorData } from '../../index.ts'
import { byteLengthOf, elementCount, makeTensor, storageLength, storageOf } from '../../tensor.ts'
import { knownDims, type InputShape } from './input-shapes.ts'

/** How data is made up. */
export interface GeneratedData {
  /** `zero`: zeros, and empty strings. */
  readonly kind: 'random' | 'zero'
  /** Characters of random strings. */
  readonly stringLength: number
  /** What each string is instead; `null` for made-up ones. */
  readonly stringData: string | null
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

/** One input of so many rows, made up. */
export function generatedFeed(input: InputShape, rows: number, data: GeneratedData, random: () => number): FeedValue {
  const { type, batchAxis } = input
  const own = knownDims(input)
  const dims = batchAxis === -1 ? own : own.toSpliced(batchAxis, 0, rows)
  return makeTensor(type, valuesOf(type, elementCount(dims), data, random), dims)
}

/** How much memory that takes, about. */
export function generatedBytes(input: InputShape, rows: number, { stringLength, stringData }: GeneratedData): number {
  const count = elementCount(knownDims(input)) * (input.batchAxis === -1 ? 1 : rows)
  return input.type === 'string' ? count * (bytesOfString + (stringData?.length ?? stringLength)) : byteLengthOf(input.type, count)
}

/** Of all that is made up together: it is held in memory, and what is longer fits in no array. */
export const mostGeneratedBytes = Math.min(2 ** 32, availableMemory().usableBytes / 2)

/** Beside its characters. */
const bytesOfString = 24

function valuesOf(type: ElementType, count: number, { kind, stringLength, stringData }: GeneratedData, random: () => number): TensorData | string[] {
  if (type === 'string') return Array.from({ length: count }, () => stringData ?? (kind === 'zero' ? '' : word(stringLength, random)))
  const values = new (storageOf(type))(storageLength(type, count))
  if (kind === 'zero') return values
  const make = maker(type, random)
  for (let index = 0; index < values.length; index++) values[index] = make()
  return values
}

/** Numbers from 0 to 1 of floats; of integers from 1 to 7, as few models take any: they are often indices. */
function maker(type: ElementType, random: () => number): () => number | bigint {
  const small = () => 1 + Math.floor(random() * 7)
  switch (type) {
    case 'float32':
    case 'float64':
      return random
    case 'float16':
      return () => toFloat16Bits(random())
    case 'bfloat16':
      return () => bits(random()) >>> 16
    case 'float8e4m3fn':
    case 'float8e4m3fnuz':
    case 'float8e5m2':
    case 'float8e5m2fnuz':
      return () => 0x30 + small() // small positive numbers in each of them
    case 'bool':
      return () => (random() < 0.5 ? 0 : 1)
    case 'int64':
    case 'uint64':
      return () => BigInt(small())
    case 'int4':
    case 'uint4':
      return () => small() | (small() << 4)
    default:
      return small
  }
}

const scratch = new Float32Array(1)
const scratchBits = new Uint32Array(scratch.buffer)

function bits(value: number): number {
  scratch[0] = value
  return scratchBits[0]!
}

function word(length: number, random: () => number): string {
  const text = Buffer.alloc(length)
  for (let index = 0; index < length; index++) text[index] = letters.charCodeAt(Math.floor(random() * letters.length))
  return text.toString('latin1')
}
