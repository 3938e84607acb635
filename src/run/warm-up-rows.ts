import {
  joinTensors,
  byteLengthOf,
  elementCount,
  isElementType,
  isFloatType,
  type MailedTensor,
} from '../tensor/tensor.ts'
import type { ModelMetadata, TensorMetadata } from '../tensor/metadata.ts'
import type { PaddedInput } from '../request/padding.ts'
import { rowRecipes, type RowRecipe } from '../models/row-check/row-recipes.ts'
import { sampleRow } from '../models/row-check/row-samples.ts'
import type { TrialFeeds } from '../models/row-check/trial-feeds.ts'

/** Which made-up values: zeros where they can do no harm, zeros, or random ones. */
export type MadeUp = 'harmless' | 'zeros' | 'random'

/** Combinations of the sizes of several paddings that are made up. */
const maxShapes = 64

/** The padded inputs of a model, as far as it matters here. */
type Padded = { readonly inputs: readonly PaddedInput[] }

/**
 * What a model can be warmed up with that nobody gave: for each of its shapes, one for each size that inputs are padded to,
 * rows of which the model may take some, the likeliest first.
 *
 * @param optional indices of inputs that may be left out.
 */
export function madeUpRows(
  metadata: ModelMetadata,
  padding: Padded | null,
  optional: ReadonlySet<number>,
  kind: MadeUp,
): (() => TrialFeeds)[][] {
  if (!metadata.inputs.every(({ type }) => isElementType(type))) return []
  const inputs = metadata.inputs as readonly TensorMetadata[]
  if (kind === 'harmless' && !inputs.every(({ type }) => isFloatType(type))) return []
  return paddedShapes(inputs, padding).flatMap((shape) => {
    if (kind === 'harmless' && !isKnown(metadata, shape)) return []
    const recipes = rowRecipes(inputs, null, shape, optional)
    const chosen =
      kind === 'random' ? recipes : kind === 'zeros' ? ofOtherShapes(recipes) : recipes.slice(0, 1)
    const row = (recipe: RowRecipe) =>
      kind === 'random' ? sampleRow(inputs, recipe.rowDims, recipe.draws, 0) : zeroRow(inputs, recipe)
    return [
      chosen.map((recipe) => () => (metadata.maxBatchSize > 0 ? row(recipe) : asItIs(inputs, row(recipe)))),
    ]
  })
}

/** Each size of each padding, together those of dimensions with one name, which have one length. */
function paddedShapes(inputs: readonly TensorMetadata[], padding: Padded | null): (Padded | null)[] {
  if (padding === null) return [null]
  const names = padding.inputs.map(({ index, axis }, entry) => inputs[index]!.shape[axis] || `${entry}`)
  const sizesOf = new Map<number | string, readonly number[]>()
  for (const [entry, { sizes }] of padding.inputs.entries())
    if (sizes !== 'longest' && !sizesOf.has(names[entry]!)) sizesOf.set(names[entry]!, sizes)
  let shapes = [new Map<number | string, number>()]
  for (const [name, sizes] of sizesOf)
    shapes = shapes
      .flatMap((shape) => sizes.map((size) => new Map([...shape, [name, size]])))
      .slice(0, maxShapes)
  return shapes.map((lengths) => ({
    inputs: padding.inputs.map((input, entry) => {
      const length = lengths.get(names[entry]!)
      return length === undefined ? input : { ...input, sizes: [length] }
    }),
  }))
}

/** Whether all dimensions of a row have a length. */
function isKnown({ inputs, maxBatchSize }: ModelMetadata, padding: Padded | null): boolean {
  const firstAxis = maxBatchSize > 0 ? 1 : 0
  return inputs.every(({ shape }, index) =>
    shape.every((dim, at) => {
      const padded = padding?.inputs.some(
        (input) => input.index === index && input.axis === at && input.sizes !== 'longest',
      )
      return at < firstAxis || typeof dim === 'number' || padded === true
    }),
  )
}

/** Without those that differ from an earlier one in their values alone. */
function ofOtherShapes(recipes: readonly RowRecipe[]): RowRecipe[] {
  const shapes = recipes.map(({ rowDims, draws }) =>
    JSON.stringify([rowDims, draws.map((draw) => draw === 'absent')]),
  )
  return recipes.filter((_, index) => shapes.indexOf(shapes[index]!) === index)
}

function zeroRow(inputs: readonly TensorMetadata[], { rowDims, draws }: RowRecipe): TrialFeeds {
  return inputs.map(({ type }, index): MailedTensor | null => {
    if (draws[index] === 'absent') return null
    const dims = [1, ...rowDims[index]!]
    const count = elementCount(dims)
    return {
      type,
      dims,
      data:
        type === 'string'
          ? Array.from({ length: count }, () => '')
          : new ArrayBuffer(byteLengthOf(type, count)),
    }
  })
}

/** A row as a request to a model without a batch dimension, whose first dimension is one like the others. */
function asItIs(inputs: readonly TensorMetadata[], row: TrialFeeds): TrialFeeds {
  return row.map((tensor, index) => {
    if (tensor === null) return null
    const [first] = inputs[index]!.shape
    if (first === undefined) return { ...tensor, dims: [] }
    return typeof first === 'number' && first > 0
      ? joinTensors(Array.from({ length: first }, () => tensor))
      : tensor
  })
}
