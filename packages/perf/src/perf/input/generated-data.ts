import type { ElementType, FeedValue, ModelMetadata, TensorData } from 'zerohop'
import {
  availableMemory,
  batchAxisOf,
  byteLengthOf,
  elementCount,
  invalidArgument,
  isElementType,
  isFloatType,
  isPacked,
  isSmallFloat,
  isTensorLike,
  listNames,
  makeTensor,
  notStackable,
  shownShape,
  storageLength,
  storageOf,
  toSmallFloat,
} from 'zerohop/internals'
import type { Sample, SampleSource } from './sample-source.ts'

type Kind = 'random' | 'zero'

/**
 * Whether data is generated: `random` or `zero`, for all inputs or for one, as `NAME:zero`. Otherwise it is a
 * path.
 */
export function isMadeUp(data: string): boolean {
  return /^(?:.+:)?(?:random|zero)$/s.test(data)
}

/**
 * What to generate; `null` if there are also paths, or nothing else.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for an unknown input, or one named twice.
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

/** How to generate data. */
export interface GeneratedData {
  /** `zero`: zeros, and empty strings. */
  readonly kind: Kind
  /** Kinds for single inputs, by name. Default: none. */
  readonly kinds?: ReadonlyMap<string, Kind>
  /** Length of random strings. */
  readonly stringLength: number
  /** A fixed value for all strings; `null` for generated ones. */
  readonly stringData: string | null
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

/** Generates one input with so many rows. */
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

/** Its approximate size in memory. */
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

/** Limit for all generated data together: it is kept in memory, and arrays have a limit as well. */
export const mostGeneratedBytes = Math.min(2 ** 32, availableMemory().usableBytes / 2)

/** Without its characters. */
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

/**
 * Floats are from 0 to 1. Integers are from 1 to 7, as they are often indices, and larger ones may be
 * invalid.
 */
function maker(type: ElementType, random: () => number): () => number | bigint {
  const small = () => 1 + Math.floor(random() * 7)
  if (type === 'bool') return () => (random() < 0.5 ? 0 : 1)
  if (isSmallFloat(type)) return () => toSmallFloat(type, random())
  if (isFloatType(type)) return random
  if (isPacked(type)) return () => small() | (small() << 4)
  return type.endsWith('int64') ? () => BigInt(small()) : small
}

function word(length: number, random: () => number): string {
  const text = Buffer.alloc(length)
  for (let index = 0; index < length; index++)
    text[index] = letters.charCodeAt(Math.floor(random() * letters.length))
  return text.toString('latin1')
}

/**
 * Requests of which no two are the same, however many are sent. Each lies in its own memory, and one number
 * of its floats is changed before it repeats. Requests without floats repeat unchanged, as integers may be
 * indices and texts may be looked up.
 */
export class UniqueSamples implements SampleSource {
  readonly #samples: readonly Sample[]
  readonly #random: () => number
  readonly #changes: boolean
  #sent = 0

  /**
   * @param samples all different. Generated ones may be changed.
   * @param random from 0 to 1; `null` if samples must not be changed.
   */
  constructor(samples: readonly Sample[], random: (() => number) | null) {
    this.#samples = samples
    this.#random = random ?? Math.random
    this.#changes = random !== null && samples.every((sample) => floatsOf(sample).length > 0)
  }

  get size(): number | null {
    return this.#changes ? null : this.#samples.length
  }

  next(): Sample {
    const turn = Math.floor(this.#sent / this.#samples.length)
    const sample = this.#samples[this.#sent++ % this.#samples.length]!
    if (turn > 0 && this.#changes) {
      for (const floats of floatsOf(sample)) floats[turn % floats.length] = this.#random()
    }
    return sample
  }
}

function floatsOf({ feeds }: Sample): (Float32Array | Float64Array)[] {
  return Object.values(feeds).flatMap((feed) => {
    const data = isTensorLike(feed) ? feed.data : feed
    return (data instanceof Float32Array || data instanceof Float64Array) && data.length > 0 ? [data] : []
  })
}

/** An input of requests. */
export interface InputShape {
  readonly name: string
  readonly type: ElementType
  /** Dims of one row, without the dimension that counts rows. -1 for a dim that only the data determines. */
  readonly rowDims: readonly number[]
  /** The dimension that counts rows; -1 if there is none. */
  readonly batchAxis: number
}

/** Dims of inputs by name, from `--shape`. */
export type GivenShapes = ReadonlyMap<string, readonly number[]>

/** Whether requests to a model can have several rows. */
export function hasRows({ inputs, outputs, maxBatchSize }: ModelMetadata): boolean {
  return maxBatchSize > 0 || notStackable({ inputs, outputs }) === null
}

/**
 * The inputs to give to a model.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a shape that does not fit, or an input that is no tensor.
 */
export function inputShapes(metadata: ModelMetadata, given: GivenShapes = new Map()): InputShape[] {
  const names = metadata.inputs.map(({ name }) => name)
  const strange = [...given.keys()].find((name) => !names.includes(name))
  if (strange !== undefined)
    throw invalidArgument('shape', `the name of an input (${names.join(', ')})`, strange)
  return metadata.inputs.map((input) => {
    const { name, type } = input
    if (!isElementType(type))
      throw invalidArgument(`input '${name}'`, 'a tensor, which data can be made for', type)
    return shapeOf(input, type, hasRows(metadata), given.get(name))
  })
}

/** Its outputs, as far as they are tensors. */
export function outputShapes(metadata: ModelMetadata): InputShape[] {
  return metadata.outputs.flatMap((output) =>
    isElementType(output.type) ? [shapeOf(output, output.type, hasRows(metadata))] : [],
  )
}

function shapeOf(
  { name, shape, ...value }: ModelMetadata['inputs'][number],
  type: ElementType,
  rows: boolean,
  given?: readonly number[],
): InputShape {
  const batchAxis = rows ? batchAxisOf(value) : -1
  const own = shape.filter((_, axis) => axis !== batchAxis)
  return { name, type, rowDims: fixed(name, own, given), batchAxis }
}

function fixed(
  name: string,
  shape: readonly (number | string)[],
  given: readonly number[] | undefined,
): number[] {
  if (given === undefined) return shape.map((dim) => (typeof dim === 'number' ? dim : -1))
  const fits =
    given.length === shape.length &&
    shape.every((dim, axis) => typeof dim === 'string' || dim === given[axis])
  if (!fits)
    throw invalidArgument(
      `shape of input '${name}'`,
      `dims that fit ${shownShape(shape)}, without the batch dimension`,
      [...given],
    )
  return [...given]
}

/** @throws InferenceError `ERR_INVALID_ARG` for unknown dims. */
export function knownDims({ name, rowDims }: InputShape): readonly number[] {
  if (!rowDims.includes(-1)) return rowDims
  const example = rowDims.map((dim) => (dim === -1 ? 1 : dim)).join(',')
  throw invalidArgument(
    `input '${name}'`,
    'a shape, as it has variable dimensions',
    shownShape(rowDims.map((dim) => (dim === -1 ? '' : dim))),
    { hint: `Give one: --shape ${name}:${example}` },
  )
}
