import { MersenneTwister } from './mersenne-twister.ts'
import { drawBelow, shuffle } from './random-draws.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

/** Which samples the queries of a run have, one query after the other. */
export interface SampleOrder {
  /** Samples of each query; those of `offline`, whose one query has them all, come one by one. */
  readonly samplesPerQuery: number
  /** How often there is something next; `Infinity` where samples may come again. */
  readonly count: number
  /** Fills in what is next. */
  next(samples: Uint32Array): void
}

/**
 * The samples that LoadGen holds in memory during a run, in its order: as many as `performanceSampleCount` of all, chosen
 * by the first seed (`GenerateLoadableSets` in loadgen.cc).
 */
export function loadedSamples({
  totalSampleCount,
  performanceSampleCount,
  seeds,
}: ScenarioSettings): Uint32Array {
  // Its caller gives it only so many indices as are loaded, whatever there are in all.
  const samples = Uint32Array.from(
    { length: Math.min(performanceSampleCount, totalSampleCount) },
    (_, index) => index,
  )
  shuffle(samples, new MersenneTwister(seeds.qsl))
  return samples
}

/**
 * The order in which LoadGen asks for samples (`GenerateQueries` in loadgen.cc), number for number: at random out of the
 * loaded ones; in multi-stream consecutive ones, from a start at random; in offline all of them in turn.
 */
export function sampleOrder(settings: ScenarioSettings): SampleOrder {
  const { scenario, inputs, sameSampleIndex } = settings
  const loaded = loadedSamples(settings)
  const random = new MersenneTwister(settings.seeds.sampleIndex)
  const samplesPerQuery = scenario === 'multi-stream' ? settings.samplesPerQuery : 1
  const unique = Uint32Array.from(
    { length: Math.ceil(loaded.length / samplesPerQuery) },
    (_, index) => index * samplesPerQuery,
  )
  // LoadGen draws these whether it needs them or not, and what follows depends on it.
  shuffle(unique, random)
  drawEqualIssue(random, settings.minQueryCount, loadedWithPadding(settings, loaded.length))
  let asked = 0
  const start = () => {
    const turn = asked++
    if (inputs === 'same') return sameSampleIndex
    if (scenario === 'offline') return turn
    return inputs === 'unique' ? unique[turn]! : drawBelow(random, loaded.length)
  }
  return {
    samplesPerQuery,
    count: inputs === 'unique' ? unique.length : Infinity,
    next: (samples) => {
      const first = start()
      for (let index = 0; index < samples.length; index++)
        samples[index] = loaded[(first + index) % loaded.length]!
    },
  }
}

/** In multi-stream the loaded samples are followed by the first ones again, so that every query has consecutive ones. */
function loadedWithPadding({ scenario, samplesPerQuery }: ScenarioSettings, count: number): number {
  return scenario === 'multi-stream' ? count + samplesPerQuery - 1 : count
}

/** Permutations of a mode that is not offered here (`sample_concatenate_permutation`), drawn for the numbers that they take. */
function drawEqualIssue(random: MersenneTwister, minQueryCount: number, setSize: number): void {
  const samples = new Uint32Array(setSize)
  for (let drawn = 0; drawn < minQueryCount; drawn += setSize) shuffle(samples, random)
}
