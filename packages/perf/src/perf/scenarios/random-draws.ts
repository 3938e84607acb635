import type { MersenneTwister } from './mersenne-twister.ts'

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
