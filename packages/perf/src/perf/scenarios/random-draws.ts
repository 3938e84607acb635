import type { ScenarioSettings } from './scenario-settings.ts'

/**
 * C++ specifies the numbers of its generators, but not those of its distributions. LoadGen's Linux binaries
 * use GNU's (libstdc++: bits/uniform_int_dist.h, bits/random.tcc, bits/stl_algo.h). This file gives the same
 * numbers.
 */

const twoTo32 = 2 ** 32

/** `std::uniform_int_distribution`: an integer from 0 to `range` - 1; `range` is at most 2^32. */
export function drawBelow(random: MersenneTwister, range: number): number {
  // Draws again what would make some numbers more likely than others.
  const threshold = (twoTo32 - range) % range
  for (;;) {
    // The product of two 32-bit numbers, in halves that a double holds exactly.
    const drawn = random.next()
    const upper = (drawn >>> 16) * range
    const lower = (drawn & 0xffff) * range
    const low = ((upper % 0x10000) * 0x10000 + lower) % twoTo32
    if (low >= threshold) return Math.floor((upper + Math.floor(lower / 0x10000)) / 0x10000)
  }
}

/** `std::exponential_distribution`: the gap to the next random arrival, at `rate` per unit of time. */
export function drawGap(random: MersenneTwister, rate: number): number {
  const low = random.next()
  const share = (low + random.next() * twoTo32) / (twoTo32 * twoTo32)
  // Rounding may have made it 1, whose gap would be infinite.
  return -Math.log(1 - Math.min(share, 1 - Number.EPSILON / 2)) / rate
}

/** `std::shuffle`, in place. */
export function shuffle(items: Uint32Array, random: MersenneTwister): void {
  const swap = (a: number, b: number) => {
    const held = items[a]!
    items[a] = items[b]!
    items[b] = held
  }
  const count = items.length
  if (count === 0) return
  let index = 1
  if (Math.floor((twoTo32 - 1) / count) < count) {
    for (; index < count; index++) swap(index, drawBelow(random, index + 1))
    return
  }
  // If one random number suffices for two swaps, it is used for both.
  if (count % 2 === 0) swap(index++, drawBelow(random, 2))
  while (index < count) {
    const [first, second] = [index + 1, index + 2]
    const both = drawBelow(random, first * second)
    swap(index++, Math.floor(both / second))
    swap(index++, both % second)
  }
}

const stateSize = 624
const shiftSize = 397

/**
 * The 32-bit Mersenne Twister, equal to `std::mt19937`, with which LoadGen draws samples and arrivals.
 *
 * @see https://en.cppreference.com/w/cpp/numeric/random/mersenne_twister_engine
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(stateSize)
  #at = stateSize

  /** @param seed of 64 bits; `std::mt19937` uses the low 32. */
  constructor(seed: bigint) {
    const state = this.#state
    state[0] = Number(BigInt.asUintN(32, seed))
    for (let index = 1; index < stateSize; index++) {
      const before = state[index - 1]! ^ (state[index - 1]! >>> 30)
      state[index] = Math.imul(1_812_433_253, before) + index
    }
  }

  /** A uniform 32-bit integer. */
  next(): number {
    if (this.#at === stateSize) this.#twist()
    let value = this.#state[this.#at++]!
    value ^= value >>> 11
    value ^= (value << 7) & 0x9d2c5680
    value ^= (value << 15) & 0xefc60000
    return (value ^ (value >>> 18)) >>> 0
  }

  #twist(): void {
    const state = this.#state
    for (let index = 0; index < stateSize; index++) {
      const joined = (state[index]! & 0x80000000) | (state[(index + 1) % stateSize]! & 0x7fffffff)
      state[index] = state[(index + shiftSize) % stateSize]! ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0)
    }
    this.#at = 0
  }
}

/**
 * When queries of `server` are due, in milliseconds since the start, as in LoadGen: the first at once, the
 * others after exponential gaps in whole nanoseconds, until the minimum of time and of queries is reached.
 * For one seed the arrivals at different rates differ only by scale.
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

/** The samples of a run's queries, in order. */
export interface SampleOrder {
  /** Samples per query. The single query of `offline` gives its samples one by one. */
  readonly samplesPerQuery: number
  /** How many times there is a next one; `Infinity` if samples may repeat. */
  readonly count: number
  /** Fills in the next samples. */
  next(samples: Uint32Array): void
}

/**
 * The samples that LoadGen keeps in memory during a run, in its order: `performanceSampleCount` of all,
 * chosen by the first seed (`GenerateLoadableSets` in loadgen.cc).
 */
export function loadedSamples({
  totalSampleCount,
  performanceSampleCount,
  seeds,
}: ScenarioSettings): Uint32Array {
  // Its caller passes only as many indices as are loaded, whatever the total.
  const samples = Uint32Array.from(
    { length: Math.min(performanceSampleCount, totalSampleCount) },
    (_, index) => index,
  )
  shuffle(samples, new MersenneTwister(seeds.qsl))
  return samples
}

/**
 * The order in which LoadGen sends samples (`GenerateQueries` in loadgen.cc), number for number: random ones
 * of those loaded; in multi-stream consecutive ones from a random start; in offline all of them in turn.
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
  // LoadGen always draws these, and later numbers depend on it.
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

/**
 * In multi-stream the first samples are appended to the loaded ones, so that every query has consecutive
 * samples.
 */
function loadedWithPadding({ scenario, samplesPerQuery }: ScenarioSettings, count: number): number {
  return scenario === 'multi-stream' ? count + samplesPerQuery - 1 : count
}

/**
 * Draws the permutations of a mode that is not offered here (`sample_concatenate_permutation`), because they
 * consume random numbers.
 */
function drawEqualIssue(random: MersenneTwister, minQueryCount: number, setSize: number): void {
  const samples = new Uint32Array(setSize)
  for (let drawn = 0; drawn < minQueryCount; drawn += setSize) shuffle(samples, random)
}
