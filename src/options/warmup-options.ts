import * as v from 'valibot'
import { optionsOf, properties } from './options-schema.ts'
import type { WarmupSample } from './model-config.ts'
import { wholeNumber } from './whole-number.ts'

/** How instances are warmed. */
export interface ResolvedWarmup {
  /** Samples that the user gave. */
  readonly samples: readonly WarmupSample[]
  /** What runs of our own are given; `null` for none. `'harmless'`: zeros where they can do no harm. */
  readonly madeUp: 'harmless' | 'zeros' | 'random' | null
  /** Rows of each run; `null`: one of what is made up, and samples as they are. */
  readonly batchSizes: readonly number[] | 'all' | null
  /** How often each made-up run is made. */
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
  const sizes = Array.isArray(batchSizes) ? [...new Set(batchSizes)].sort((a, b) => a - b) : batchSizes
  if (typeof data === 'string') return { samples: [], madeUp: data, batchSizes: sizes, count }
  return { samples: data as WarmupSample[], madeUp: null, batchSizes: sizes, count }
}
