import * as v from 'valibot'
import type { Feeds } from './model-signature.ts'
import { ascending, optionsOf, properties, wholeNumber } from './options-schema.ts'

/** A request that each instance runs before the model is ready. */
export interface WarmupSample {
  /** Inputs by name, as for `infer()`. */
  feeds: Feeds
  /** Number of runs. Default 1. */
  count?: number
}

/** What each instance runs before the model is ready. */
export interface WarmupOptions {
  /**
   * Input data.
   *
   * - `'zeros'` or `'random'`: generated values, for each size of `padding`, with lengths that the model accepts; runs
   *   that fail are skipped. Random integers are 1 to 7, as few models accept others. Zeros are also used for integers:
   *   a model that divides by one would end the process.
   * - Samples: they must run, or the load fails.
   *
   * Default `'zeros'`.
   */
  data?: 'zeros' | 'random' | readonly WarmupSample[]
  /**
   * Rows of the runs: each of these sizes, or `'all'` distinct sizes (1, 2, 4, 8 ... up to the largest, and the
   * preferred ones). A sample's first row is repeated. Sizes over 128 MiB of inputs, or over the batch limit, are
   * skipped. Default: one row, and samples as they are.
   */
  batchSizes?: readonly number[] | 'all'
  /**
   * Runs per generated input. Default 2: the first run of a shape measures the memory it needs, the second is the first
   * to allocate it in one block.
   */
  count?: number
}

/** How instances are warmed up. */
export interface ResolvedWarmup {
  /** Samples from the user. */
  readonly samples: readonly WarmupSample[]
  /** Data of generated runs; `null` for none. `'harmless'`: zeros, only where zeros are safe. */
  readonly madeUp: 'harmless' | 'zeros' | 'random' | null
  /** Rows of each run. `null`: one row for generated data, and samples as they are. */
  readonly batchSizes: readonly number[] | 'all' | null
  /** Number of runs per generated input. */
  readonly count: number
}

const count = wholeNumber(1)
const samples = v.array(optionsOf({ feeds: properties, count: v.optional(count, 1) }))

/** Schema of `warmup`. */
export const warmupSchema = v.optional(
  v.union([
    v.boolean(),
    samples,
    optionsOf({
      data: v.optional(v.union([v.picklist(['zeros', 'random']), samples]), 'zeros'),
      batchSizes: v.optional(v.union([v.literal('all'), v.pipe(v.array(count), v.minLength(1))])),
      count: v.optional(count, 2),
    }),
  ]),
  true,
)

/** `warmup` with all defaults in place. */
export function resolveWarmup(given: v.InferOutput<typeof warmupSchema>): ResolvedWarmup {
  const none: ResolvedWarmup = { samples: [], madeUp: null, batchSizes: null, count: 1 }
  if (typeof given === 'boolean') return given ? { ...none, madeUp: 'harmless' } : none
  if (Array.isArray(given)) return { ...none, samples: given as WarmupSample[] }
  const { data, batchSizes = null, count } = given
  const sizes = Array.isArray(batchSizes) ? ascending(batchSizes) : batchSizes
  return typeof data === 'string'
    ? { samples: [], madeUp: data, batchSizes: sizes, count }
    : { samples: data as WarmupSample[], madeUp: null, batchSizes: sizes, count }
}
