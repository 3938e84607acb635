import { MersenneTwister } from './mersenne-twister.ts'
import { drawGap } from './random-draws.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

/**
 * When queries of `server` are due, in milliseconds since the start, as LoadGen has it: the first at once, the others after
 * gaps of an exponential distribution in whole nanoseconds, until the minimum of time and of queries is reached. The same
 * seed makes the same arrivals, stretched, at every rate.
 */
export function* serverSchedule(
  { minDurationMs, minQueryCount, seeds }: ScenarioSettings,
  queriesPerSecond: number,
): Generator<number, void> {
  const random = new MersenneTwister(seeds.schedule)
  const durationNs = minDurationMs * 1e6
  let atNs = 0
  let beforeNs = 0
  for (let count = 0; beforeNs < durationNs || count < minQueryCount; count++) {
    yield atNs / 1e6
    beforeNs = atNs
    atNs += Math.trunc(drawGap(random, queriesPerSecond) * 1e9)
  }
}
