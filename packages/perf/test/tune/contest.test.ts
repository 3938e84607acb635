import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mulberry32 } from '../../../../test/models/random.ts'
import { type Candidate, keyOf } from '../../src/tune/configuration.ts'
import { Contest, placesOf } from '../../src/tune/contest.ts'
import { type Measurement, outcomeOf } from '../../src/tune/outcome.ts'
import type { Goal } from '../../src/tune/tune-settings.ts'

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

const goal = { p99Ms: 10 }
const configuration = { instances: 1, threads: 1, maxBatchSize: 8, maxQueueDelayMs: 0 }
const withCallers = (concurrency: number): Candidate => ({ configuration, load: { concurrency } })
const measured = (p99Ms: number, rowsPerSecond = 100): Measurement => ({
  rowsPerSecond,
  p50Ms: 1,
  p99Ms,
  memoryBytes: 1,
  meanBatchRows: 8,
  failures: 0,
})

/** Where candidates stand after so many rounds in which each shows the same. */
function placesAfter(
  rounds: number,
  showings: readonly (readonly [Candidate, Measurement])[],
  earlier: ReturnType<typeof placesOf> = [],
) {
  const contest = new Contest(
    showings.map(([candidate]) => keyOf(candidate)),
    goal,
  )
  const recorded = {
    candidates: showings.map(([candidate]) => candidate),
    showings: [] as { key: string; measurement: Measurement; failure: null; affordable: number }[],
  }
  for (let index = 0; index < rounds * showings.length; index++) {
    const key = contest.next()!
    const measurement = showings.find(([candidate]) => keyOf(candidate) === key)![1]
    recorded.showings.push({ key, measurement, failure: null, affordable: Infinity })
    contest.record(key, measurement)
  }
  return placesOf(contest, recorded, goal, earlier)
}

const found = { alone: [], reference: configuration, goal, leastSeconds: 9, isDecided: false }
const bestOf = (places: ReturnType<typeof placesOf>) => outcomeOf({ ...found, places }).best

describe('the best', () => {
  it('is the default, unconfirmed, where nothing was measured beside it', () => {
    const { best, isConfirmed } = outcomeOf({
      ...found,
      places: [],
      alone: placesAfter(1, [[withCallers(1), measured(9)]]),
    })
    expect([best!.isDefault, best!.rounds, isConfirmed]).toEqual([true, 1, false])
  })

  it('is not the default alone where it did not keep its bound in a contest', () => {
    const places = placesAfter(4, [[withCallers(4), measured(20)]])
    const alone = placesAfter(1, [[withCallers(1), measured(9)]])
    const { best, reason } = outcomeOf({ ...found, places, alone, isDecided: true })
    expect({ best, reason }).toEqual({
      best: null,
      reason: 'no configuration keeps the bounds: relax them or lower the load',
    })
  })

  it('is none, with a budget that is worth while, where only the default was measured and keeps no bound', () => {
    const { best, reason } = outcomeOf({
      ...found,
      places: [],
      alone: placesAfter(1, [[withCallers(1), measured(20)]]),
    })
    expect(best).toBeNull()
    expect(reason).toBe(
      'the default misses the bounds, and the time was too short to measure another configuration: give a --budget of 9 seconds or more',
    )
  })

  it('of a contest stays so until one with other loads has gone through some rounds', () => {
    const first = placesAfter(5, [[withCallers(4), measured(6, 100)]])
    const further = [
      [withCallers(4), measured(6, 100)],
      [withCallers(6), measured(9, 140)],
    ] as const
    expect(bestOf(placesAfter(1, further, first))!.candidate).toEqual(withCallers(4))
    expect(bestOf(placesAfter(3, further, first))!.candidate).toEqual(withCallers(6))
  })

  it('is not one that kept the bound once, where another did so in many rounds', () => {
    const first = placesAfter(7, [[withCallers(4), measured(6, 100)]])
    const once = placesAfter(1, [[withCallers(8), measured(9, 300)]])
    expect(bestOf([...once, ...first])!.candidate).toEqual(withCallers(4))
    expect(bestOf(once)!.candidate).toEqual(withCallers(8))
  })

  it.each([
    [[7, 7, 7, 12], false, 1],
    [[7, 7, 7, 7, 12], true, 1],
    [[7, 7, 7, 7, 7, 12, 13], false, 2],
  ])(
    'that shows a p99 of %j ms under a bound of 10 keeps it: %j, and is over it in %i',
    (p99sMs, isKept, roundsOver) => {
      const key = keyOf(withCallers(4))
      const contest = new Contest([key], goal)
      for (const p99Ms of p99sMs) contest.record(key, measured(p99Ms))
      const showings = p99sMs.map((p99Ms) => ({
        key,
        measurement: measured(p99Ms),
        failure: null,
        affordable: Infinity,
      }))
      const places = placesOf(contest, { candidates: [withCallers(4)], showings }, goal, [])
      const { rows } = outcomeOf({ ...found, places })
      expect(rows[0]).toMatchObject({
        isKept,
        roundsOver,
        rounds: p99sMs.length,
        worstP99Ms: Math.max(...p99sMs),
        measured: { p99Ms: 7 },
      })
    },
  )

  it('is of a contest of few rounds where those before it had none that kept the bound', () => {
    const first = placesAfter(5, [[withCallers(4), measured(20)]])
    expect(bestOf(placesAfter(1, [[withCallers(2), measured(9)]], first))!.candidate).toEqual(withCallers(2))
  })
})
