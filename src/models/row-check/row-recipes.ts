import { batchAxisOf, type TensorMetadata } from '../../tensor/metadata.ts'
import type { PaddedInput } from '../../request/padding.ts'
import { isFloatType } from '../../tensor/tensor.ts'
import type { Draw } from './row-samples.ts'
import type { TrialFeeds } from './trial-feeds.ts'

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
 * @param optional indices of inputs that may be left out.
 */
export function rowRecipes(
  inputs: readonly TensorMetadata[],
  sample: TrialFeeds | null,
  padding: { readonly inputs: readonly PaddedInput[] } | null,
  optional: ReadonlySet<number>,
): RowRecipe[] {
  const lengths = lengthsToTry.map((lengths) => dimsOf(inputs, lengths, padding))
  const variable = inputs.some(({ shape }) => shape.slice(1).some((dim) => typeof dim === 'string'))
  const shapes =
    sample === null ? lengths.slice(0, variable ? undefined : 1) : [dimsLike(sample, lengths[0]!)]
  const given = inputs.map((_, index) => sample === null || sample[index] !== null)
  const usual = inputs.map((input, index): Draw => (given[index] ? usualDraw(input) : 'absent'))
  const integers = (draw: Draw) =>
    inputs.map((input, index): Draw =>
      isInteger(input) && given[index] ? drawFor(input, draw) : usual[index]!,
    )
  const whole = inputs.map(({ type }, index): Draw =>
    isFloatType(type) && given[index] ? 'whole' : usual[index]!,
  )
  const recipes = shapes.flatMap((rowDims) => {
    const recipe = { rowDims, draws: usual }
    const narrower = (['few', 'one', 'last'] as const).map((draw) => ({ rowDims, draws: integers(draw) }))
    return [recipe, ...narrower, without(recipe, optional)]
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

/** As a recipe that runs, with floats of extreme scales; `null` where it has none that rows do not share. */
export function extreme(inputs: readonly TensorMetadata[], { rowDims, draws }: RowRecipe): RowRecipe | null {
  const drawn = draws.map((draw, index): Draw =>
    draw === 'usual' && isFloatType(inputs[index]!.type) && batchAxisOf(inputs[index]!) !== -1
      ? 'extreme'
      : draw,
  )
  return drawn.includes('extreme') ? { rowDims, draws: drawn } : null
}

/** As a recipe that runs, without what may be left out. */
export function without({ rowDims, draws }: RowRecipe, optional: ReadonlySet<number>): RowRecipe {
  return { rowDims, draws: draws.map((draw, index) => (optional.has(index) ? 'absent' : draw)) }
}

function isInteger({ type }: TensorMetadata): boolean {
  return /^u?int/.test(type)
}

function drawFor(input: TensorMetadata, draw: Draw): Draw {
  return draw === 'last' && !isSigned(input) ? 'one' : draw
}

function usualDraw(input: TensorMetadata): Draw {
  if (!isInteger(input)) return 'usual'
  // Names that exporters of language models have agreed on.
  return /mask/i.test(input.name) ? 'mask' : /type|segment/i.test(input.name) ? 'kind' : 'usual'
}

function dimsLike(sample: TrialFeeds, otherwise: readonly (readonly number[])[]): (readonly number[])[] {
  return sample.map((feed, index) => feed?.dims.slice(1) ?? otherwise[index]!)
}

/** Row dims with every variable dimension given a length, equal names the same one. */
function dimsOf(
  inputs: readonly TensorMetadata[],
  lengths: { image: number; other: number },
  padding: { readonly inputs: readonly PaddedInput[] } | null,
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

function paddedLength(
  padding: { readonly inputs: readonly PaddedInput[] } | null,
  index: number,
  axis: number,
): number | null {
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
