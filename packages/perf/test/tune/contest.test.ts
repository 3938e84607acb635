import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Contest } from '../../src/tune/contest.ts'
import type { Goal } from '../../src/tune/tune-settings.ts'
import type { Measurement } from '../../src/tune/outcome.ts'
import { mulberry32 } from '../../../../test/models/random.ts'

const showing = (rowsPerSecond: number, p99Ms = 1): Measurement => ({
  rowsPerSecond,
  p50Ms: 1,
  p99Ms,
  memoryBytes: 1,
  meanBatchRows: 1,
  failures: 0,
})

/** Goes through a contest; who was measured, in order. */
function play(
  contest: Contest,
  measure: (key: string) => Measurement | null,
  affordable = Infinity,
): string[] {
  const order: string[] = []
  for (let key = contest.next(); key !== null; key = contest.next()) {
    order.push(key)
    contest.record(key, measure(key), affordable)
  }
  return order
}

describe('a contest', () => {
  it('goes through its rounds there and back, so that each meets the machine alike', () => {
    const contest = new Contest(['a', 'b', 'c'], {})
    expect(
      play(contest, () => showing(1))
        .slice(0, 9)
        .join(''),
    ).toBe('abccbaabc')
  })

  it('goes on with nobody who is clearly behind', () => {
    const contest = new Contest(['a', 'b', 'c'], {})
    const order = play(contest, (key) => showing({ a: 100, b: 99, c: 50 }[key]!))
    expect(order.filter((key) => key === 'c')).toHaveLength(2)
    expect(contest.standings().map(({ key }) => key)).toEqual(['a', 'b', 'c'])
  })

  it('keeps one that met something else in one round', () => {
    const contest = new Contest(['a', 'b', 'c'], {})
    let shown = 0
    play(contest, (key) => showing(key === 'a' ? (++shown === 2 ? 40 : 100) : { b: 90, c: 80 }[key]!))
    expect(contest.standings()[0]!.key).toBe('a')
  })

  it('goes on between two that are left, while chance may decide', () => {
    const random = mulberry32(1)
    const rounds = (scatter: number) => {
      const contest = new Contest(['a', 'b'], {})
      play(contest, () => showing(100 * (1 + scatter * (2 * random() - 1))))
      return contest.round
    }
    const longOnes = (scatter: number) =>
      Array.from({ length: 20 }, () => rounds(scatter)).filter((count) => count === 30).length
    expect(longOnes(0.001)).toBe(0)
    expect(longOnes(0.1)).toBeGreaterThan(10)
  })

  it('is not misled by a machine that becomes slower within rounds that all meet', () => {
    const contest = new Contest(['a', 'b'], {})
    let speed = 1
    play(contest, (key) => showing((key === 'a' ? 100 : 95) * (speed *= 0.97)))
    expect(contest.standings()[0]!.key).toBe('a')
  })

  it('is not misled by one whose requests all fail', () => {
    const contest = new Contest(['a', 'b', 'c', 'none'], {})
    play(contest, (key) =>
      key === 'none' ? { ...showing(0), failures: 5 } : showing({ a: 90, b: 100, c: 95 }[key]!),
    )
    expect(contest.standings().map(({ key, isKept }) => [key, isKept])).toEqual([
      ['b', true],
      ['c', true],
      ['a', true],
      ['none', false],
    ])
    expect(contest.round).toBeGreaterThan(2)
  })

  it.each([
    ['chance may explain', 1.02, 2, 'default'],
    ['is of a single round', 2, 1, 'default'],
    ['chance does not explain', 1.5, 2, 'other'],
    ['rounds have shown to be real', 1.05, 8, 'other'],
  ])('has its reference before another whose lead %s', (_, lead, rounds, first) => {
    const random = mulberry32(3)
    const contest = new Contest(['default', 'other'], {}, 'default')
    for (let count = 0; count < 2 * rounds; count++) {
      const key = contest.next()!
      contest.record(key, showing((key === 'other' ? lead : 1) * (100 + 5 * random())))
    }
    expect(contest.standings()[0]!.key).toBe(first)
  })

  it('keeps its reference, however little time there is, until it is clearly behind', () => {
    const contest = new Contest(['default', 'b', 'c', 'd'], {}, 'default')
    const values: Record<string, number> = { default: 99, b: 100, c: 100.1, d: 100.2 }
    for (let count = 0; count < 8; count++)
      contest.record(contest.next()!, showing(values[contest.next()!]!), 5)
    expect([...contest.left].sort()).toEqual(['c', 'd', 'default'])
  })

  it('puts out at once who fails', () => {
    const contest = new Contest(['a', 'b', 'old'], {})
    const order = play(contest, (key) => (key === 'a' ? showing(1) : null))
    expect(order.filter((key) => key !== 'a').sort()).toEqual(['b', 'old'])
    expect(contest.standings().map(({ isKept }) => isKept)).toEqual([true, false, false])
  })

  it('prefers whoever keeps a bound to whoever is faster', () => {
    const goal: Goal = { p99Ms: 10 }
    const contest = new Contest(['fast', 'kept'], goal)
    play(contest, (key) => (key === 'fast' ? showing(200, 20) : showing(100, 9)))
    expect(contest.standings().map(({ key, isKept }) => [key, isKept])).toEqual([
      ['kept', true],
      ['fast', false],
    ])
  })

  it('goes on with as few as there is time for', () => {
    const contest = new Contest(['a', 'b', 'c', 'd', 'e', 'f'], {})
    const values: Record<string, number> = { a: 100, b: 99, c: 99.5, d: 99.2, e: 99.3, f: 99.9 }
    for (let count = 0; count < 12; count++)
      contest.record(contest.next()!, showing(values[contest.next()!]!), 15)
    expect(contest.left).toEqual(['a', 'c', 'f'])
  })

  it('ends, whatever is shown, and tells of everybody once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(null, 1, 50, 90, 99, 100), { minLength: 1, maxLength: 200 }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(60),
        (values, count, affordable) => {
          const keys = Array.from({ length: count }, (_, index) => `k${index}`)
          const contest = new Contest(keys, {})
          let at = 0
          const order = play(contest, () => {
          const value = values[at++ % values.length]!
          return value === null ? null : showing(value)
        }, affordable) // prettier-ignore
          expect(order.length).toBeLessThanOrEqual(count * 30)
          expect(
            contest
              .standings()
              .map(({ key }) => key)
              .sort(),
          ).toEqual([...keys].sort())
        },
      ),
    )
  })

  it('comes to the same when it is played again from what was recorded', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 1, max: 100, noNaN: true }), { minLength: 30, maxLength: 60 }),
        fc.nat(40),
        (values, stop) => {
          const first = new Contest(['a', 'b', 'c', 'd'], {})
          const recorded: [string, Measurement][] = []
          for (let key = first.next(); key !== null && recorded.length < stop; key = first.next()) {
            recorded.push([key, showing(values[recorded.length % values.length]!)])
            first.record(...recorded.at(-1)!, 20)
          }
          const again = new Contest(['a', 'b', 'c', 'd'], {})
          for (const [key, measurement] of recorded) again.record(key, measurement, 20)
          expect([again.next(), again.left, again.standings()]).toEqual([
            first.next(),
            first.left,
            first.standings(),
          ])
        },
      ),
    )
  })
})
