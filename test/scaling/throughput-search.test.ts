import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  isSame,
  settingsToTry,
  ThroughputSearch,
  type ThroughputSetting,
} from '../../src/models/scaling/throughput-search.ts'
import { mulberry32 } from '../models/random.ts'

const present = { instances: 1, batchRows: 32 }
const rateKey = ({ instances, batchRows }: ThroughputSetting) => `${instances} x ${batchRows}`

/** Runs a search to its end; how many measurements it took. */
function run(search: ThroughputSearch, rateOf: (setting: ThroughputSetting) => number | null): number {
  let measurements = 0
  for (let { next } = search; next !== null; { next } = search) {
    const rate = rateOf(next)
    if (rate === null) search.unavailable()
    else {
      search.measured(rate)
      measurements++
    }
  }
  return measurements
}

describe('the settings to try', () => {
  it('begin with the one in use, and have single rows and all rows on every number of instances', () => {
    const settings = settingsToTry(4, 32, present)
    expect(settings[0]).toEqual(present)
    expect(settings.map(rateKey).sort()).toEqual(
      [1, 2, 4].flatMap((instances) => [1, 2, 8, 32].map((rows) => `${instances} x ${rows}`)).sort(),
    )
  })

  it('are only instances where batches have one row', () => {
    expect(settingsToTry(3, 1, { instances: 1, batchRows: 1 }).map(rateKey)).toEqual([
      '1 x 1',
      '2 x 1',
      '3 x 1',
    ])
  })

  it('change the number of instances as seldom as can be', () => {
    const instances = settingsToTry(8, 32, present)
      .slice(1)
      .map((setting) => setting.instances)
    expect(instances).toEqual(instances.toSorted((a, b) => a - b))
  })
})

describe('a search', () => {
  it('keeps what is in use when nothing is better by 3 %', () => {
    const search = new ThroughputSearch(settingsToTry(2, 32, present))
    run(search, (setting) => (isSame(setting, present) ? 100 : 102))
    expect(search.best).toEqual(present)
    expect(search).toMatchObject({
      decision: 'gain-too-small',
      finalTurns: { gains: [1.02, 1.02, 1.02, 1.02] },
    })
  })

  it('finds what is better', () => {
    const search = new ThroughputSearch(settingsToTry(2, 32, present))
    run(search, ({ instances, batchRows }) =>
      instances === 2 && batchRows === 1 ? 106 : 100 - batchRows / 10,
    )
    expect(search.best).toEqual({ instances: 2, batchRows: 1 })
    expect(search).toMatchObject({ decision: 'changed', finalTurns: { instances: 2, batchRows: 1 } })
    expect(search.tried[0]).toMatchObject({ instances: 2, batchRows: 1, rowsPerSecond: 106 })
  })

  it('keeps what is in use where the winner is no better in turns with it, whatever others showed that never were', () => {
    const [winner, second] = [
      { instances: 2, batchRows: 1 },
      { instances: 2, batchRows: 8 },
    ]
    const search = new ThroughputSearch(settingsToTry(2, 32, present))
    let asked = 0
    run(search, (setting) => {
      if (isSame(setting, winner)) return ++asked <= 2 ? 112 : 95
      return isSame(setting, second) ? 110 : isSame(setting, present) ? 100 : 50
    })
    expect(search.best).toEqual(present)
    expect(search).toMatchObject({
      decision: 'no-gain',
      finalTurns: { ...winner, gains: [0.95, 0.95, 0.95, 0.95] },
    })
  })

  it('keeps what is in use where the winner was better by no more than chance, and says so', () => {
    const search = new ThroughputSearch(settingsToTry(1, 2, { instances: 1, batchRows: 2 }))
    const rates = [112, 130, 90, 125, 99]
    run(search, ({ batchRows }) => (batchRows === 2 ? 100 : rates.shift()!))
    expect(search.best).toEqual({ instances: 1, batchRows: 2 })
    expect(search).toMatchObject({
      decision: 'gain-within-noise',
      finalTurns: { instances: 1, batchRows: 1, gains: [1.3, 0.9, 1.25, 0.99] },
    })
  })

  it('says that the winner cannot be had any more, and keeps what is in use', () => {
    const search = new ThroughputSearch(settingsToTry(2, 1, { instances: 1, batchRows: 1 }))
    let asked = 0
    run(search, ({ instances }) => (instances === 1 ? 100 : ++asked > 2 ? null : 150))
    expect(search.best).toEqual({ instances: 1, batchRows: 1 })
    expect(search).toMatchObject({ decision: 'unavailable', finalTurns: null })
  })

  it('leaves out what cannot be had, and all with as many instances', () => {
    const search = new ThroughputSearch(settingsToTry(4, 8, present))
    run(search, ({ instances }) => (instances > 1 ? null : 100))
    expect(search.best).toEqual(present)
    expect(search.tried.every(({ instances }) => instances === 1)).toBe(true)
  })

  it('ends when nothing can be had', () => {
    const search = new ThroughputSearch(settingsToTry(4, 8, present))
    run(search, () => null)
    expect(search.best).toEqual(present)
    expect(search.tried).toEqual([])
    expect(search).toMatchObject({ decision: 'no-other', finalTurns: null })
  })

  it('keeps one of two that are twice as good and alike, whichever of them ranks higher in the end', () => {
    const own = { instances: 1, batchRows: 8 }
    for (let seed = 1; seed <= 200; seed++) {
      const random = mulberry32(seed)
      const search = new ThroughputSearch(settingsToTry(1, 8, own))
      run(search, ({ batchRows }) => (batchRows === 8 ? 50 : 100) * (1 + 0.05 * (2 * random() - 1)))
      expect([seed, search.best.batchRows]).not.toEqual([seed, 8])
    }
  })

  it('ends after few measurements, and under noise of 5 % keeps nothing that is worse than what was in use by more than that', () => {
    const noise = 0.05
    const seeds = fc.record({
      seed: fc.integer(),
      most: fc.integer({ min: 1, max: 16 }),
      rows: fc.constantFrom(1, 2, 8, 32),
    })
    fc.assert(
      fc.property(seeds, ({ seed, most, rows }) => {
        const random = mulberry32(seed)
        const rates = new Map<string, number>()
        const own = { instances: 1, batchRows: rows }
        const settings = settingsToTry(most, rows, own)
        for (const setting of settings) rates.set(rateKey(setting), 50 + 100 * random())
        const search = new ThroughputSearch(settings)
        const measurements = run(
          search,
          (setting) => rates.get(rateKey(setting))! * (1 + noise * (2 * random() - 1)),
        )
        expect(measurements).toBeLessThanOrEqual(1.5 * settings.length + 9)
        expect(rates.get(rateKey(search.best))!).toBeGreaterThan(rates.get(rateKey(own))! * (1 - 2 * noise))
        const best = Math.max(...rates.values())
        expect(rates.get(rateKey(search.best))!).toBeGreaterThan(best * (1 - 3 * noise))
      }),
    )
  })
})
