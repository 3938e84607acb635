import { describe, expect, it } from 'vitest'
import { keyOf, type Candidate } from '../../src/tune/configuration.ts'
import { Contest, placesOf } from '../../src/tune/contest.ts'
import { type Measurement, outcomeOf } from '../../src/tune/outcome.ts'

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
