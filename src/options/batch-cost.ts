import * as v from 'valibot'
import { invalidArgument, type InferenceError } from '../errors.ts'
import type { TensorLike } from '../tensor/tensor.ts'
import type { BatchLimits, CostLimits } from './batching.ts'
import { optionsOf } from './options-schema.ts'
import { wholeNumber } from './whole-number.ts'

/** A request as a function is given it that says what it costs. */
export interface CostedRequest {
  /** Of its batch dimension. */
  readonly rows: number
  /** Its tensors by the model's names; an optional one that was left out is not there. To be read only, and during the call. */
  readonly inputs: Readonly<Record<string, Pick<TensorLike, 'type' | 'dims' | 'data'>>>
}

/**
 * What a request costs: the length of a row along a dimension of an input (an index into the input's dims, batch dimension
 * included) times its rows, or what a function says: a finite number of 0 or more, for all of its rows. The function is
 * called once for each request, by the application's thread.
 */
export type RequestCost =
  | { readonly input: string; readonly dim: number }
  | ((request: CostedRequest) => number)

/** What becomes of a request that costs more than a batch may: it is run by itself, or refused with `ERR_INVALID_ARG`. */
export type OverCostAction = 'ALONE' | 'REJECT'

/** How batches are limited by what they cost. */
export interface ResolvedCost {
  readonly of: RequestCost
  /** `Infinity` for no limit. */
  readonly maxBatchCost: number
  readonly maxPaddingShare: number
  readonly overCostAction: OverCostAction
}

/** Of what a batch may cost, what padding may be where nothing is said of it. */
export const defaultPaddingShare = 0.1

const costFunction = {
  ...v.custom<(request: CostedRequest) => number>((value) => typeof value === 'function'),
  expects: 'a function, or { input, dim }',
}

/** Options of `dynamicBatching` that are about costs. */
export const costEntries = {
  cost: v.optional(
    v.union([optionsOf({ input: v.pipe(v.string(), v.minLength(1)), dim: wholeNumber(1) }), costFunction]),
  ),
  maxBatchCost: v.optional(
    v.pipe(
      v.number(),
      v.check((cost) => cost > 0 && cost < Infinity, 'a finite number above 0'),
    ),
  ),
  maxPaddingShare: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  overCostAction: v.optional(v.picklist(['ALONE', 'REJECT'])),
}

interface CostOptions {
  readonly cost?: RequestCost | undefined
  readonly maxBatchCost?: number | undefined
  readonly maxPaddingShare?: number | undefined
  readonly overCostAction?: OverCostAction | undefined
}

/**
 * What is said of costs; `null` for nothing.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for what means nothing without another option, or beside it.
 */
export function resolveCost(
  model: string,
  options: CostOptions | null,
  hasSequence: boolean,
): ResolvedCost | null {
  if (options === null) return null
  const { cost, maxBatchCost, maxPaddingShare = defaultPaddingShare, overCostAction = 'ALONE' } = options
  const wrong = (option: keyof CostOptions, expected: string, hint: string): InferenceError =>
    invalidArgument(`dynamicBatching.${option}`, expected, options[option], {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint,
    })
  if (cost === undefined) {
    const stray = (['maxBatchCost', 'maxPaddingShare', 'overCostAction'] as const).find(
      (option) => options[option] !== undefined,
    )
    if (stray !== undefined)
      throw wrong(
        stray,
        'dynamicBatching.cost beside it',
        "Say what a request costs, as cost: { input: 'input_ids', dim: 1 }",
      )
    return null
  }
  if (hasSequence) throw wrong('cost', 'to be left out for a model with sequences', 'Remove it, or sequence')
  if (maxBatchCost === undefined && options.overCostAction !== undefined)
    throw wrong(
      'overCostAction',
      'dynamicBatching.maxBatchCost beside it',
      'Without it nothing costs too much',
    )
  return { of: cost, maxBatchCost: maxBatchCost ?? Infinity, maxPaddingShare, overCostAction }
}

/** The part of a batch's limits that is about costs, where its rows are filled up to a common length or not. */
export function costLimits(cost: ResolvedCost | null, isPadded: boolean): Pick<BatchLimits, 'cost'> {
  if (cost === null) return {}
  const { maxBatchCost, maxPaddingShare } = cost
  return { cost: { maxBatchCost, maxPaddingShare, isPadded } satisfies CostLimits }
}
