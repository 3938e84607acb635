import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { optionsOf } from './options-schema.ts'

/** How requests of a model that are equal share what they get. */
export interface ResolvedResponses {
  /** Most bytes of answers that are kept; 0 for none. */
  readonly maxBytes: number
  /** Whether requests that are equal share a run while it is in flight. */
  readonly coalesce: boolean
}

const defaultMaxBytes = 64 * 2 ** 20

export const responseCacheSchema = v.optional(
  v.union([
    v.boolean(),
    optionsOf({
      maxBytes: v.optional(v.pipe(v.number(), v.safeInteger('a whole number'), v.minValue(1))),
      coalesce: v.optional(v.boolean()),
    }),
  ]),
  false,
)

/**
 * What is said of a model's responses; `null` where each request is answered by a run of its own.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` when one thing is said twice, and differently.
 */
export function resolveResponses(
  model: string,
  responseCache: v.InferOutput<typeof responseCacheSchema>,
  coalesce: boolean | undefined,
): ResolvedResponses | null {
  const cache = responseCache === true ? {} : responseCache === false ? null : responseCache
  const own = cache?.coalesce
  if (coalesce !== undefined && own !== undefined && own !== coalesce) {
    throw invalidArgument('responseCache.coalesce', `${coalesce}, as coalesce beside it`, own, {
      code: 'ERR_MODEL_CONFIG',
      model,
    })
  }
  const shares = coalesce ?? own ?? cache !== null
  if (cache === null && !shares) return null
  return { maxBytes: cache === null ? 0 : (cache.maxBytes ?? defaultMaxBytes), coalesce: shares }
}
