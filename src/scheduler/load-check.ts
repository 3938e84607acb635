import type { ResolvedConfig } from '../config/resolve-model-config.ts'
import { checkRows } from '../instance/row-check.ts'
import type { RunTrial } from '../instance/row-trials.ts'
import { singleRows, type TrialFeeds } from '../instance/trial-feeds.ts'
import type { PreparedWarmup } from '../instance/warm-up.ts'
import type { Padding } from '../request/padding.ts'
import type { Joining } from './joining.ts'

/** Rows of warm-up samples that take part. */
const maxSamples = 4

/**
 * Finds out during a load whether rows are independent, where that is to be found out.
 *
 * @param warmups what the model is warmed up with; the samples of the user among it are tried as well.
 * @param run runs on one of the instances.
 * @returns whether the instance has been warmed up by it.
 */
export async function checkAtLoad(
  joining: Joining,
  { optionalInputs }: ResolvedConfig,
  padding: Padding | null,
  warmups: readonly PreparedWarmup[],
  run: RunTrial,
): Promise<boolean> {
  if (!joining.undecided) return false
  const { inputs, outputs, maxBatchSize } = joining.stacked
  const own = warmups.filter(({ required }) => required)
  const verdict = await checkRows(
    { inputs, outputs },
    {
      maxBatchSize,
      samples: own.flatMap(({ feeds }) => singleRows(feeds as TrialFeeds, maxSamples)).slice(0, maxSamples),
      padding,
      tolerance: joining.tolerance,
      optional: new Set(inputs.flatMap(({ name }, index) => (optionalInputs.includes(name) ? [index] : []))),
      replacesWarmUp: own.length < warmups.length,
    },
    run,
  )
  joining.found(verdict)
  return verdict.largestDifference !== null
}
