import { batchAxisOf, type TensorMetadata } from '../../tensor/metadata.ts'
import type { Padding } from '../../request/padding.ts'
import {
  isFloatType,
  elementCount,
  isPacked,
  storageOf,
  type ElementType,
  type MailedTensor,
} from '../../tensor/tensor.ts'
import { mailed, mailedNumbers, packed } from '../../tensor/elements.ts'
import type { TrialFeeds } from './trial-feeds.ts'
import { mulberry32 } from '../../base/numbers.ts'
import { isSmallFloat, largestFloat, toSmallFloat } from '../../tensor/small-floats.ts'

/** How rows are made up that a model may be able to run. */
export interface RowRecipe {
  /** Dims of each input's row. */
  readonly rowDims: readonly (readonly number[])[]
  readonly draws: readonly Draw[]
}

/** Lengths to try for variable dimensions: of images, whose networks halve them several times, and of everything else. */
const lengthsToTry = [
  { image: 32, other: 8 },
  { image: 64, other: 1 },
  { image: 224, other: 64 },
  { image: 8, other: 16 },
]
const channels = 3

/**
 * Recipes in the order in which they are worth a try.
 *
 * @param sample a request that is known to run; its lengths are the only ones then.
 * @param optionalInputs names of inputs that may be left out.
 */
export function rowRecipes(
  inputs: readonly TensorMetadata[],
  sample: TrialFeeds | null,
  padding: Pick<Padding, 'inputs'> | null,
  optionalInputs: readonly string[],
): RowRecipe[] {
  const lengths = lengthsToTry.map((lengths) => dimsOf(inputs, lengths, padding))
  const variable = inputs.some(({ shape }) => shape.slice(1).some((dim) => typeof dim === 'string'))
  const shapes =
    sample === null
      ? lengths.slice(0, variable ? undefined : 1)
      : [sample.map((feed, index) => feed?.dims.slice(1) ?? lengths[0]![index]!)]
  const given = inputs.map((_, index) => sample === null || sample[index] !== null)
  const usual = inputs.map((input, index): Draw => (given[index] ? usualDraw(input) : 'absent'))
  const integers = (draw: Draw) =>
    inputs.map((input, index): Draw => {
      if (!isInteger(input) || !given[index]) return usual[index]!
      return draw === 'last' && !isSigned(input) ? 'one' : draw
    })
  const whole = inputs.map(({ type }, index): Draw =>
    isFloatType(type) && given[index] ? 'whole' : usual[index]!,
  )
  const recipes = shapes.flatMap((rowDims) => {
    const recipe = { rowDims, draws: usual }
    const narrower = (['few', 'one', 'last'] as const).map((draw) => ({ rowDims, draws: integers(draw) }))
    return [recipe, ...narrower, without(inputs, recipe, optionalInputs)]
  })
  recipes.push({ rowDims: shapes[0]!, draws: whole })
  const keys = recipes.map((recipe) => JSON.stringify(recipe))
  return recipes.filter((_, index) => keys.indexOf(keys[index]!) === index)
}

/** A recipe that runs, with more values for one input: none where that has several already, else the best one first. */
export function widened(
  inputs: readonly TensorMetadata[],
  { rowDims, draws }: RowRecipe,
  index: number,
): RowRecipe[] {
  if (!isConstant(draws[index]!)) return []
  const wider: Draw[] = isSigned(inputs[index]!) ? ['usual', 'few', 'back'] : ['usual', 'few']
  return wider.map((wide) => ({ rowDims, draws: draws.map((draw, at) => (at === index ? wide : draw)) }))
}

/** The first input that has but one value in all rows of a recipe, or none, so that its part stays in the dark; `null` without such. */
export function constantInput(inputs: readonly TensorMetadata[], { draws }: RowRecipe): string | null {
  return (
    inputs.find(
      (input, index) =>
        (isConstant(draws[index]!) && usualDraw(input) === 'usual') || draws[index] === 'absent',
    )?.name ?? null
  )
}

const isConstant = (draw: Draw): boolean => draw === 'one' || draw === 'last'
const isSigned = ({ type }: TensorMetadata): boolean => type.startsWith('int')

/** As a recipe that runs, with values further apart, or with particular ones. */
export function other(
  inputs: readonly TensorMetadata[],
  { rowDims, draws }: RowRecipe,
  otherDraw: 'wide' | 'far',
): RowRecipe {
  const drawOf = (input: TensorMetadata): Draw =>
    otherDraw === 'far' && isInteger(input) && /ids?$/i.test(input.name) ? 'padded' : otherDraw
  return { rowDims, draws: draws.map((draw, index) => (draw === 'usual' ? drawOf(inputs[index]!) : draw)) }
}

/** As a recipe that runs, without what may be left out. */
export function without(
  inputs: readonly TensorMetadata[],
  { rowDims, draws }: RowRecipe,
  optionalInputs: readonly string[],
): RowRecipe {
  const isLeftOut = (index: number) => optionalInputs.includes(inputs[index]!.name)
  return { rowDims, draws: draws.map((draw, index) => (isLeftOut(index) ? 'absent' : draw)) }
}

/** Whether an input has floats that rows do not share. */
export function hasOwnFloats(input: TensorMetadata): boolean {
  return isFloatType(input.type) && batchAxisOf(input) !== -1
}

function isInteger({ type }: TensorMetadata): boolean {
  return /^u?int/.test(type)
}

function usualDraw(input: TensorMetadata): Draw {
  if (!isInteger(input)) return 'usual'
  // Names that exporters of language models have agreed on.
  return /mask/i.test(input.name) ? 'mask' : /type|segment/i.test(input.name) ? 'kind' : 'usual'
}

/** Row dims with every variable dimension given a length, equal names the same one. */
function dimsOf(
  inputs: readonly TensorMetadata[],
  lengths: { image: number; other: number },
  padding: Pick<Padding, 'inputs'> | null,
): number[][] {
  const byName = new Map<string, number>()
  return inputs.map(({ shape }, index) =>
    shape.slice(1).map((dim, at) => {
      if (typeof dim === 'number') return dim
      const length =
        byName.get(dim) ?? paddedLength(padding, index, at + 1) ?? lengthOf(shape, at + 1, lengths)
      if (dim !== '') byName.set(dim, length)
      return length
    }),
  )
}

function paddedLength(padding: Pick<Padding, 'inputs'> | null, index: number, axis: number): number | null {
  const entry = padding?.inputs.find((input) => input.index === index && input.axis === axis)
  return entry === undefined || entry.sizes === 'longest' ? null : entry.sizes[0]!
}

function lengthOf(
  shape: readonly (number | string)[],
  axis: number,
  { image, other }: { image: number; other: number },
): number {
  if (shape.length !== 4) return other
  const channelsLast = shape[3] === 1 || shape[3] === 3 || shape[3] === 4
  if (axis === 3 && typeof shape[3] === 'string' && (shape[1] === 1 || shape[1] === 3)) return image
  return (channelsLast ? axis < 3 : axis > 1) ? image : axis === 1 ? channels : other
}

/** How the elements of one input are drawn; bools and strings have one way only. */
type Draw =
  /** Floats of either sign at a scale of the row's own, integers 1 to 7. */
  | 'usual'
  /** Floats of either sign at one scale, integers of either sign up to 99 or 999. */
  | 'wide'
  /** As usual, with rows in turn that have something particular: a value far from all others, zeros, nothing positive. */
  | 'far'
  /** Floats at scales that lie as far apart as they come, of both signs or of one; what is no float as usual. */
  | 'extreme'
  /** Whole numbers 1 to 7: floats that stand for something countable. */
  | 'whole'
  /** 1 to 3, for integers. */
  | 'few'
  /** 1 everywhere: all that an index into something with two entries can be without being 0. */
  | 'one'
  /** -1 and -2: the same index counted from the end. */
  | 'back'
  /** -1 everywhere. */
  | 'last'
  /** 0 and 1, the first of each row 1. */
  | 'mask'
  /** 0 and 1; the first element alternates from row to row. */
  | 'kind'
  /** 1 to 7, then 0 to the end of the row: padded ids of tokens. */
  | 'padded'
  /** Not given. */
  | 'absent'

/** Scales of the rows in turn: what one row adds to another shows where the other is far smaller. */
const scales = [1, 30, 0.03, 100, 0.01, 5, 0.2, 10_000]
/** Scales and signs of 'extreme' rows in turn. Dependence on the loudest row, or on a threshold, shows between two of them. */
const extremes: readonly (readonly [scale: number, sign: -1 | 0 | 1])[] = [[1, 0], [30_000, 0], [1e-4, 0], [50, 1], [0.5, 1], [30_000, 1], [300, -1], [0, 1]] // prettier-ignore
/** Scale factors for rows of callers' requests. */
const scalesOfRequests = [1e-4, 30_000, 0.5, 50]
/** One row in this many has no negative float. */
const positiveEvery = 4
const largestSmall = 7
/** Integers of one byte and less. */
type NarrowInteger = Extract<ElementType, `${'u' | ''}int${2 | 4 | 8}`>
interface Large {
  /** Values of 'far' rows, one in each row: several, taken as sizes, would need all memory. */
  readonly far: readonly number[]
  readonly wide: number
}
const largeNarrow: Readonly<Record<NarrowInteger, Large>> = {
  int8: { far: [127, 90, 60], wide: 99 },
  uint8: { far: [255, 180, 100], wide: 255 },
  int4: { far: [7, 6, 5], wide: 7 },
  uint4: { far: [15, 12, 10], wide: 15 },
}
const largeElse: Large = { far: [30_000, 5000, 150], wide: 999 }
const largeOf = (type: ElementType): Large => largeNarrow[type as NarrowInteger] ?? largeElse
const farFloat = 1_000_000
const farSmallFloat = 10_000
/** Kinds of 'far' rows, in turn; the first kind is as usual. */
const farKinds = 5
const largestFew = 3
/** Elements that are drawn; a longer row repeats them. A prime, so that the repetition does not coincide with a dimension. */
const drawn = 8191

/**
 * One row of made-up values, always the same for the same arguments. Integers are 0 only in masks, kinds and ids: any other
 * may be a divisor, and ONNX Runtime ends the process when it divides by 0.
 *
 * @param rowNumber of the row; inputs that all rows share are always those of row 0.
 */
export function sampleRow(
  inputs: readonly TensorMetadata[],
  { rowDims, draws }: RowRecipe,
  rowNumber: number,
): TrialFeeds {
  return inputs.map((input, index): MailedTensor | null => {
    const { type } = input
    const row = batchAxisOf(input) === -1 ? 0 : rowNumber
    const draw = draws[index]!
    if (draw === 'absent') return null
    const dims = [1, ...rowDims[index]!]
    const count = elementCount(dims)
    const random = mulberry32((row * 131 + index * 17 + draw.length + 1) * 0x9e3779b9)
    const kind = draw === 'far' ? row % farKinds : 0
    if (type === 'string')
      return { type, dims, data: Array.from({ length: count }, () => text(kind, random)) }
    const packs = isPacked(type)
    const data = packs ? new Int8Array(count) : new (storageOf(type))(count)
    const own = Math.min(count, drawn)
    const usual = type === 'bool' ? bool(count, row, random) : element(type, draw, row, random)
    const next = kind === 0 ? usual : particular(type, kind, count, usual)
    const big = type === 'int64' || type === 'uint64'
    for (let at = 0; at < own; at++)
      if (big) (data as BigInt64Array)[at] = BigInt(next(at))
      else (data as Float32Array)[at] = stored(type, next(at))
    for (let at = own; at < count; at += own) data.copyWithin(at, 0, Math.min(own, count - at))
    return mailed(type, dims, packs ? packed(data as Int8Array) : data)
  })
}

/** Rows of a recipe that runs, with floats of extreme scales; none if rows have no floats of their own. */
export function extremesLike(inputs: readonly TensorMetadata[], { rowDims, draws }: RowRecipe): TrialFeeds[] {
  const drawn = draws.map((draw, index): Draw =>
    draw === 'usual' && hasOwnFloats(inputs[index]!) ? 'extreme' : draw,
  )
  if (!drawn.includes('extreme')) return []
  return extremes.map((_, row) => sampleRow(inputs, { rowDims, draws: drawn }, row))
}

/** Rows of extreme scales, made from those of requests; none if rows have no floats of their own. */
export function extremesOf(inputs: readonly TensorMetadata[], rows: readonly TrialFeeds[]): TrialFeeds[] {
  const [first] = rows
  if (first === undefined) return []
  const draws = inputs.map((input, index): Draw =>
    first[index] !== null && hasOwnFloats(input) ? 'extreme' : 'absent',
  )
  if (!draws.includes('extreme')) return []
  const rowDims = first.map((feed) => feed?.dims.slice(1) ?? [])
  const scaled = scalesOfRequests.map((scale, at) => rescaled(inputs, rows[at % rows.length]!, scale))
  const made = extremes.map((_, row): TrialFeeds => {
    const own = rows[row % rows.length]!
    return sampleRow(inputs, { rowDims, draws }, row).map((feed, index) => feed ?? own[index]!)
  })
  return [...scaled, ...made]
}

/** A row with rescaled floats: the largest of each input that rows do not share becomes `scale`; all 0 stays all 0. */
function rescaled(inputs: readonly TensorMetadata[], feeds: TrialFeeds, scale: number): TrialFeeds {
  return feeds.map((feed, index): MailedTensor | null => {
    if (feed === null || !hasOwnFloats(inputs[index]!)) return feed
    const { type, dims } = feed
    const numbers = mailedNumbers(feed) as Float32Array
    const peak = numbers.reduce(
      (most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most),
      0,
    )
    const data = new (storageOf(type))(numbers.length) as Float32Array
    for (let at = 0; at < numbers.length; at++)
      data[at] = stored(type, peak === 0 ? 0 : (numbers[at]! / peak) * scale)
    return mailed(type, dims, data)
  })
}

/** A row with `value` as every float of each input that rows do not share; `null` if it has no such floats. */
export function filledWith(
  inputs: readonly TensorMetadata[],
  feeds: TrialFeeds,
  value: number,
): TrialFeeds | null {
  const isOf = (feed: MailedTensor | null, index: number) =>
    feed !== null && !isSmallFloat(feed.type) && hasOwnFloats(inputs[index]!)
  if (!feeds.some(isOf)) return null
  return feeds.map((feed, index) => {
    if (!isOf(feed, index)) return feed
    const { type, dims } = feed!
    return mailed(type, dims, (new (storageOf(type))(elementCount(dims)) as Float32Array).fill(value))
  })
}

/** A number as an element of the type, held within its range. */
function stored(type: ElementType, value: number): number {
  if (!isSmallFloat(type)) return value
  const most = largestFloat(type) > farFloat ? Infinity : farOf(type)
  return toSmallFloat(type, Math.min(Math.max(value, -most), most))
}

function element(
  type: MailedTensor['type'],
  draw: Draw,
  row: number,
  random: () => number,
): (at: number) => number {
  if (draw === 'one') return () => 1
  if (draw === 'last') return () => -1
  if (draw === 'back') return () => (random() < 0.5 ? -1 : -2)
  if (draw === 'few')
    return (at) => (at === 0 && row === 0 ? largestFew : 1 + Math.floor(random() * largestFew))
  if (draw === 'mask') return (at) => (at === 0 || row % positiveEvery === 0 || random() < 0.5 ? 1 : 0)
  if (draw === 'kind') return (at) => (at === 0 ? row % 2 : random() < 0.5 ? 1 : 0)
  if (draw === 'padded') {
    const filled = row % largestSmall
    return (at) => (at <= filled ? small(random) : 0)
  }
  if (isFloatType(type) && draw === 'extreme') {
    const [scale, sign] = extremes[row % extremes.length]!
    return () => (sign === 0 ? (random() < 0.5 ? scale : -scale) : sign * scale) * (0.1 + 0.9 * random())
  }
  if (isFloatType(type)) {
    const scale = draw === 'wide' ? 1 : scales[row % scales.length]!
    const positive = row % positiveEvery === positiveEvery - 1
    return draw === 'whole'
      ? () => small(random)
      : () => (positive || random() < 0.5 ? scale : -scale) * (0.1 + 0.9 * random())
  }
  if (draw !== 'wide') return (at) => (at === 0 && row === 0 ? largestSmall : small(random))
  const signed = !type.startsWith('u')
  const largest = largeOf(type).wide
  return () => (signed && random() < 0.5 ? -1 : 1) * (1 + Math.floor(random() * largest))
}

/**
 * The value of 'far' rows of floats. For a type with a smaller range: its largest number of one digit, at most
 * {@link farSmallFloat}.
 */
function farOf(type: ElementType): number {
  const largest = isSmallFloat(type) ? largestFloat(type) : Infinity
  if (largest > farFloat) return farFloat
  const digit = 10 ** Math.floor(Math.log10(largest))
  return Math.min(farSmallFloat, Math.floor(largest / digit) * digit)
}

/** What the rows after the first have in place of their usual elements. */
function particular(
  type: MailedTensor['type'],
  kind: number,
  count: number,
  usual: (at: number) => number,
): (at: number) => number {
  if (type === 'bool') return kind === 1 ? () => 1 : kind === 2 ? () => 0 : usual
  const place = count >> 1
  const instead = (value: number) => (at: number) => (at === place ? value : usual(at))
  if (isFloatType(type)) {
    const far = farOf(type)
    if (kind === 1) return instead(far)
    if (kind === 2) return (at) => (at % 2 === 0 ? 0 : usual(at))
    if (kind === 3) return (at) => -Math.abs(usual(at))
    return instead(-far)
  }
  const values = largeOf(type).far
  return instead(values[kind - 1] ?? (type.startsWith('u') ? 1 : -values[0]!))
}

/** The only bool of a row alternates from row to row. Of several the first is true, as in a mask that must not be empty. */
function bool(count: number, row: number, random: () => number): (at: number) => number {
  return count === 1 ? () => (row + 1) % 2 : (at) => (at === 0 || random() < 0.5 ? 1 : 0)
}

const small = (random: () => number): number => 1 + Math.floor(random() * largestSmall)

const text = (kind: number, random: () => number): string =>
  kind === 1 ? 'a text' : kind === 2 ? '' : String(small(random))
