import { rowRecipes } from '../../models/row-check/row-recipes.ts'
import { sampleRow } from '../../models/row-check/row-samples.ts'
import type { TrialFeeds } from '../../models/row-check/trial-feeds.ts'
import type { TensorMetadata, ValueMetadata } from '../../tensor/metadata.ts'
import { isElementType } from '../../tensor/tensor.ts'

/** Of the recipes for rows of a model, the ones that are tried. */
const mostRecipes = 8

/**
 * Requests that a model may be able to run, of one row where it has rows: pairs of like ones, the likeliest first. None of a model with
 * an input that is no tensor.
 */
export function* madeUpFeeds(
  inputs: readonly ValueMetadata[],
  optional: ReadonlySet<number>,
): Generator<readonly TrialFeeds[]> {
  if (!inputs.every(({ type }) => isElementType(type))) return
  const tensors = inputs as readonly TensorMetadata[]
  for (const { rowDims, draws } of rowRecipes(tensors, null, null, optional).slice(0, mostRecipes)) {
    const dims = rowDims.map((own, index) =>
      hasFixedFirst(tensors[index]!) ? [tensors[index]!.shape[0] as number, ...own] : own,
    )
    yield [0, 1].map((row) =>
      sampleRow(tensors, dims, draws, row).map(
        (feed, index) => feed && { ...feed, dims: asDeclared(tensors[index]!, feed.dims) },
      ),
    )
  }
}

function hasFixedFirst({ shape }: TensorMetadata): boolean {
  return typeof shape[0] === 'number'
}

/** Made-up rows have a dimension in front that counts them. */
function asDeclared(input: TensorMetadata, dims: readonly number[]): readonly number[] {
  return hasFixedFirst(input) || input.shape.length === 0 ? dims.slice(1) : dims
}
