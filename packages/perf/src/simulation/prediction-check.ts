import type { RecordedFigures } from './recorded-figures.ts'
import type { SeldomSizes } from './seldom-sizes.ts'
import type { SimulationResult } from './simulation-result.ts'

/** By what shares the prediction of a recording may be off that is still trusted. */
export const trustedWithin = { p99: 0.15, throughput: 0.05 }

/** How well a recording is predicted by itself: in the configuration and at the speed that it was recorded with. */
export interface PredictionCheck {
  /** By what share of the recorded one the predicted p99 is more, or less where it is below 0. */
  readonly p99Off: number
  readonly throughputOff: number
  /** Whether both are within {@link trustedWithin}, and the sizes of what was asked ran often enough to tell. */
  readonly isTrusted: boolean
}

/**
 * Sets the prediction of a recording beside it; `null` where nothing was answered.
 *
 * @param sizes of what is asked of the recording; `null` where that is told by other runs.
 */
export function checkPrediction(
  recorded: RecordedFigures,
  predicted: SimulationResult,
  sizes: SeldomSizes | null = null,
): PredictionCheck | null {
  if (recorded.answered === 0) return null
  const p99Off = shareOff(predicted.p99Ms ?? 0, recorded.p99Ms!)
  const throughputOff = shareOff(predicted.throughputPerSecond, recorded.throughputPerSecond)
  return {
    p99Off,
    throughputOff,
    isTrusted: isWithin({ p99Off, throughputOff }) && sizes?.isTrusted !== false,
  }
}

/** Whether a recording was predicted well enough. */
export function isWithin({
  p99Off,
  throughputOff,
}: Pick<PredictionCheck, 'p99Off' | 'throughputOff'>): boolean {
  return Math.abs(p99Off) <= trustedWithin.p99 && Math.abs(throughputOff) <= trustedWithin.throughput
}

/** Of answers that took no time, as those of a cache do, there is no share but that of the same. */
function shareOff(predicted: number, recorded: number): number {
  return predicted === recorded ? 0 : predicted / recorded - 1
}
