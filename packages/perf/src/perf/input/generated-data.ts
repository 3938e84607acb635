import {
  availableMemory,
  listNames,
  invalidArgument,
  toFloat16Bits,
  byteLengthOf,
  elementCount,
  makeTensor,
  storageLength,
  storageOf,
} from 'zerohop/internals'
import type { ElementType, FeedValue, TensorData } from 'zerohop'
import { knownDims, type InputShape } from './input-shapes.ts'

type Kind = 'random' | 'zero'

/** Whether data is made up: `random` or `zero`, of all inputs or of one, as `NAME:zero`; else it is a path. */
export function isMadeUp(data: string): boolean {
  return /^(?:.+:)?(?:random|zero)$/s.test(data)
}

/**
 * What is to be made up; `null` where there are paths as well, or nothing else.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for what is said of an input that there is not, or twice.
 */
export function madeUpKinds(
  inputData: readonly string[],
  inputs: readonly { readonly name: string }[],
): Required<Pick<GeneratedData, 'kind' | 'kinds'>> | null {
  if (!inputData.every(isMadeUp)) return null
  const kinds = new Map<string, Kind>()
  let kind: Kind | null = null
  for (const data of inputData) {
    const colon = data.lastIndexOf(':')
    const [name, own] = [data.slice(0, Math.max(0, colon)), data.slice(colon + 1) as Kind]
    const isKnown =
      colon === -1 ? kind === null : inputs.some((input) => input.name === name) && !kinds.has(name)
    if (!isKnown)
      throw invalidArgument(
        'input data',
        `random or zero once, and each input of the model (${listNames(inputs.map((input) => input.name))}) once at most, as NAME:zero`,
        [...inputData],
      )
    if (colon === -1) kind = own
    else kinds.set(name, own)
  }
  return { kind: kind ?? 'random', kinds }
}

/** How data is made up. */
export interface GeneratedData {
  /** `zero`: zeros, and empty strings. */
  readonly kind: Kind
  /** The same of single inputs, by name. Default: none. */
  readonly kinds?: ReadonlyMap<string, Kind>
  /** Characters of random strings. */
  readonly stringLength: number
  /** What each string is instead; `null` for made-up ones. */
  readonly stringData: string | null
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

/** One input of so many rows, made up. */
export function generatedFeed(
  input: InputShape,
  rows: number,
  data: GeneratedData,
  random: () => number,
): FeedValue {
  const { type, batchAxis } = input
  const own = knownDims(input)
  const dims = batchAxis === -1 ? own : own.toSpliced(batchAxis, 0, rows)
  return makeTensor(
    type,
    valuesOf(type, elementCount(dims), { ...data, kind: data.kinds?.get(input.name) ?? data.kind }, random),
    dims,
  )
}

/** How much memory that takes, about. */
export function generatedBytes(
  input: InputShape,
  rows: number,
  { stringLength, stringData }: GeneratedData,
): number {
  const count = elementCount(knownDims(input)) * (input.batchAxis === -1 ? 1 : rows)
  return input.type === 'string'
    ? count * (bytesOfString + (stringData?.length ?? stringLength))
    : byteLengthOf(input.type, count)
}

/** Of all that is made up together: it is held in memory, and what is longer fits in no array. */
export const mostGeneratedBytes = Math.min(2 ** 32, availableMemory().usableBytes / 2)

/** Beside its characters. */
const bytesOfString = 24

function valuesOf(
  type: ElementType,
  count: number,
  { kind, stringLength, stringData }: GeneratedData,
  random: () => number,
): TensorData | string[] {
  if (type === 'string')
    return Array.from(
      { length: count },
      () => stringData ?? (kind === 'zero' ? '' : word(stringLength, random)),
    )
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
  for (let index = 0; index < length; index++)
    text[index] = letters.charCodeAt(Math.floor(random() * letters.length))
  return text.toString('latin1')
}
