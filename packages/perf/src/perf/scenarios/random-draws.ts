import type { ScenarioSettings } from './scenario-settings.ts'

/*
 * C++ fixes the numbers of its generators, but not what distributions make of them. LoadGen's binaries for Linux have
 * GNU's (libstdc++: bits/uniform_int_dist.h, bits/random.tcc, bits/stl_algo.h), and these are the same numbers.
 */

const twoTo32 = 2 ** 32

/** `std::uniform_int_distribution`: a whole number from 0 up to, but not including, `range` (at most 2^32). */
export function drawBelow(random: MersenneTwister, range: number): number {
  // What would make some numbers likelier than others is drawn again.
  const threshold = (twoTo32 - range) % range
  for (;;) {
    // The product of two numbers of 32 bits, in halves that a double holds exactly.
    const drawn = random.next()
    const upper = (drawn >>> 16) * range
    const lower = (drawn & 0xffff) * range
    const low = ((upper % 0x10000) * 0x10000 + lower) % twoTo32
    if (low >= threshold) return Math.floor((upper + Math.floor(lower / 0x10000)) / 0x10000)
  }
}

/** `std::exponential_distribution`: the gap to the next of arrivals that come at random, `rate` in a unit of time. */
export function drawGap(random: MersenneTwister, rate: number): number {
  const low = random.next()
  const share = (low + random.next() * twoTo32) / (twoTo32 * twoTo32)
  // Rounding may have made it 1, which has no logarithm's gap.
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
  // Where one number is enough for two swaps, it serves for two.
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
 * The 32-bit Mersenne Twister, number for number `std::mt19937`, with which LoadGen draws samples and arrivals.
 *
 * @see https://en.cppreference.com/w/cpp/numeric/random/mersenne_twister_engine
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(stateSize)
  #at = stateSize

  /** @param seed of 64 bits, of which `std::mt19937` takes the low 32. */
  constructor(seed: bigint) {
    const state = this.#state
    state[0] = Number(BigInt.asUintN(32, seed))
    for (let index = 1; index < stateSize; index++) {
      const before = state[index - 1]! ^ (state[index - 1]! >>> 30)
      state[index] = Math.imul(1_812_433_253, before) + index
    }
  }

  /** A whole number of 32 bits, all equally likely. */
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
