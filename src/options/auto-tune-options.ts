import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { optionsOf } from './options-schema.ts'
import { maxInstances } from './scaling-options.ts'
import { wholeNumber } from './whole-number.ts'

/** What a model may take while it looks for the settings with which it gives most rows a second. */
export interface AutoTuneOptions {
  /** Most instances. Default: as many as have a worker each. */
  maxInstances?: number
  /**
   * By how many bytes the memory of the process may grow over what it is when the first search begins; settings that take more are
   * left out, those that are expected to by what fewer instances took, before they are tried. Default: no limit.
   */
  maxMemoryBytes?: number
}

/** The same, checked. */
export interface ResolvedAutoTune {
  readonly maxInstances: number
  readonly maxMemoryBytes: number
}

const optionsSchema = optionsOf({
  maxInstances: v.optional(wholeNumber(1, maxInstances)),
  maxMemoryBytes: v.optional(wholeNumber(0)),
})

/** Schema of the option. */
export const autoTuneSchema = v.optional(v.union([v.boolean(), optionsSchema]), false)

/** What else decides about batches and instances. */
interface Deciding {
  readonly latencyTargetMs: number
  readonly sequence: unknown
  readonly instanceGroup: readonly { readonly minInstances: number; readonly maxInstances: number }[]
}

/**
 * The option in full; `null` where nothing is to be tuned.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` beside an option that decides about the same.
 */
export function resolveAutoTune(
  model: string,
  given: v.InferOutput<typeof autoTuneSchema>,
  { latencyTargetMs, sequence, instanceGroup }: Deciding,
): ResolvedAutoTune | null {
  if (given === false) return null
  const options = given === true ? {} : given
  const beside = (option: string) =>
    invalidArgument('autoTune', `to be left out beside ${option}, which decides about the same`, given, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint: 'Remove one of them',
    })
  if (latencyTargetMs > 0) throw beside('latencyTargetMs')
  if (sequence !== null) throw beside('sequence')
  if (instanceGroup.length > 1) throw beside('several groups of instances')
  if (instanceGroup.some((group) => group.minInstances < group.maxInstances))
    throw beside('instanceGroup.minInstances and maxInstances')
  return {
    maxInstances: options.maxInstances ?? maxInstances,
    maxMemoryBytes: options.maxMemoryBytes ?? Infinity,
  }
}
