import { describe, expect, it } from 'vitest'
import { drawBelow, drawGap, MersenneTwister, shuffle } from '../../../src/perf/scenarios/random-draws.ts'

/** What a program of g++ 12 prints for the same seeds. */
describe('random numbers as the C++ library draws them', () => {
  it('are those of std::mt19937, whose 10000th is fixed by the standard', () => {
    const random = new MersenneTwister(5489n)
    for (let drawn = 1; drawn < 10_000; drawn++) random.next()
    expect(random.next()).toBe(4_123_659_995)
  })

  it('begin with the low 32 bits of a seed', () => {
    expect(new MersenneTwister(7n + 5n * 2n ** 32n).next()).toBe(new MersenneTwister(7n).next())
  })

  it('have the gaps of std::exponential_distribution', () => {
    const random = new MersenneTwister(16159082839903944936n)
    const gaps = Array.from({ length: 8 }, () => drawGap(random, 500))
    const expected = [
      0.0036873080338310558, 0.00091584737741150517, 0.0025717246330298942, 0.0014259894479962344,
      0.00077281325162625696, 0.0044966833866183237, 0.0021831598362238185, 0.00020349389328213892,
    ]
    for (const [index, gap] of gaps.entries()) expect(gap).toBeCloseTo(expected[index]!, 15)
  })

  it('are whole numbers of std::uniform_int_distribution, also of wide ranges, where some are drawn again', () => {
    const random = new MersenneTwister(7n)
    expect(Array.from({ length: 6 }, () => drawBelow(random, 4_000_000_001))).toEqual([
      305233164, 3119675183, 1275888910, 1753636899, 3912891585, 2893860719,
    ])
  })

  it('shuffle as std::shuffle, also more than it takes two at a time', () => {
    const items = Uint32Array.from({ length: 70_001 }, (_, index) => index)
    shuffle(items, new MersenneTwister(9n))
    expect(Array.from(items.subarray(0, 8))).toEqual([39437, 53659, 60244, 20923, 38668, 24919, 51729, 49575])
  })
})
