import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { divide } from '../../src/models/scaling/scaling.ts'
import {
  isSame,
  settingsToTry,
  ThroughputSearch,
  type ThroughputSetting,
} from '../../src/models/scaling/throughput-search.ts'
import { mulberry32 } from '../models/random.ts'
import { deferred } from '../support/deferred.ts'
import { full, repetitions } from '../support/full.ts'
import { TunedModel } from './tuned-model.ts'
import { TunedQueue } from './tuned-queue.ts'

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

const minuteMs = 60_000
/** A search has ended by then. */
const busyMs = repetitions(5, 2) * minuteMs
/** Runs take long whatever they have: small batches can do a tenth of what large ones can. */
const batches = ({ instances, batchRows }: ThroughputSetting) =>
  (20 + batchRows) * (1 + 0.9 * (instances - 1))
/** Runs take as long as they have rows, and several at once do more. */
const streams = ({ instances, batchRows }: ThroughputSetting) =>
  10 * batchRows * (1 + 0.02 * Math.log2(batchRows)) * (1 + 0.8 * (instances - 1))
/** Nothing makes a difference. */
const alike = ({ instances, batchRows }: ThroughputSetting) => 10 * batchRows * instances
const initial = { instances: 1, batchRows: 32 }

describe('requests', () => {
  it.each(full ? [0.5, 0.8, 0.95] : [0.95])(
    'that come at %f of what can be done wait little longer for the sake of trials, and none in vain',
    async (share) => {
      const queue = new TunedQueue(batches, { timeoutMs: 1000 })
      await queue.serve(busyMs, { rate: () => share * queue.capacity(initial) })
      expect(queue.tuner.stats.searchCount).toBeGreaterThan(0)
      expect(queue.longestMs).toBeLessThan(600)
      expect(queue.overloadCount).toBe(0)
    },
  )

  it.each([
    ['batches', batches, 64],
    ['streams', streams, 64],
  ])(
    'of callers who wait for their answers have them within little more than twice the usual time (%s)',
    async (_, runMs, callers) => {
      const usual = new TunedQueue(runMs)
      usual.tuner.close()
      await usual.serve(minuteMs, { callers: () => callers })
      const queue = new TunedQueue(runMs)
      await queue.serve(busyMs, { callers: () => callers })
      expect(queue.tuner.stats.searchCount).toBe(1)
      expect(queue.longestMs).toBeLessThan(2.5 * usual.longestMs + 100)
    },
  )

  it('that run out of time while something is tried end it, and it is not tried again soon', async () => {
    const queue = new TunedQueue(batches, { timeoutMs: 150 })
    await queue.serve(40_000, { rate: () => 0.8 * queue.capacity(initial) })
    expect(queue.overloadCount).toBeGreaterThan(0)
    expect(queue.overloadCount).toBeLessThan(100)
    expect(queue.tuner.stats).toMatchObject({ state: 'watching', searchCount: 0, ...initial })
  })

  it('that do so anyway hinder nothing', async () => {
    const queue = new TunedQueue(streams, { timeoutMs: 400 })
    await queue.serve(busyMs, { rate: () => 1.5 * queue.capacity(initial) })
    expect(queue.overloadCount).toBeGreaterThan(1000)
    expect(queue.capacity(queue.tuner.stats)).toBeGreaterThan(1.1 * queue.capacity(initial))
  })
})

describe('settings', () => {
  it.each(full ? [1, 2, 3] : [1])('that do more are found by their rows (seed %i)', async (seed) => {
    const queue = new TunedQueue(streams, { seed })
    await queue.serve(busyMs, { callers: () => 64 })
    const most = Math.max(
      ...[1, 2, 4].flatMap((instances) =>
        [1, 2, 8, 32].map((batchRows) => queue.capacity({ instances, batchRows })),
      ),
    )
    expect(queue.capacity(queue.tuner.stats)).toBeGreaterThan(0.9 * most)
  })

  it('stay as they are where nothing makes a difference, or the load is less than what can be done, in nine of ten', async () => {
    let moved = 0
    const times = repetitions(15, 5)
    for (let seed = 1; seed <= times; seed++) {
      const busy = new TunedQueue(alike, { seed, cores: 2, noise: 0.1 })
      await busy.serve(2 * minuteMs, { callers: () => 16 })
      const part = new TunedQueue(batches, { seed })
      await part.serve(minuteMs, { rate: () => 0.6 * part.capacity(initial) })
      for (const { tuner: { stats } } of [busy, part]) if (stats.instances !== 1 || stats.batchRows !== 32) moved++ // prettier-ignore
    }
    expect(moved).toBeLessThanOrEqual(times / 5)
  })

  it('are judged by nothing that was measured while the load came and went', async () => {
    const queue = new TunedQueue(batches)
    await queue.serve(20 * minuteMs, { callers: (nowMs) => (nowMs % 6000 < 3000 ? 64 : 0) })
    expect(queue.capacity(queue.tuner.stats)).toBeGreaterThan(0.97 * queue.capacity(initial))
  })

  it('change ever more rarely, however the machine or an adversary swings', async () => {
    const swinging = new TunedQueue(batches)
    swinging.speed = (nowMs) => (nowMs % (2 * minuteMs) < minuteMs ? 1 : 0.4)
    const adverse = new TunedQueue(streams)
    adverse.speed = (_, isTrial) =>
      isTrial && adverse.uses.length === adverse.tuner.stats.instances ? 0.5 : 1
    for (const queue of full ? [swinging, adverse] : [swinging]) {
      await queue.serve(60 * minuteMs, { callers: () => 64 })
      expect(queue.tuner.stats.searchCount).toBeLessThanOrEqual(7)
      queue.changes = 0
      await queue.serve(30 * minuteMs, { callers: () => 64 })
      expect(queue.changes).toBeLessThan(70)
    }
  })

  it('take no more memory than they may, in all searches together, by what fewer instances took', async () => {
    const queue = new TunedQueue(streams, { maxMemoryBytes: 250 })
    queue.bytesPerInstance = 100
    queue.speed = (nowMs) => (nowMs % (10 * minuteMs) < 5 * minuteMs ? 1 : 0.5)
    await queue.serve(repetitions(30, 15) * minuteMs, { callers: () => 64 })
    expect(queue.tuner.stats.searchCount).toBeGreaterThan(1)
    expect(queue.tuner.stats.instances).toBe(2)
    expect(queue.peakBytes).toBe(200)
  })
})

describe('a trial', () => {
  async function trying(model: TunedModel): Promise<void> {
    while (model.setting.instances < 4) await model.serve(100)
    expect(model.tuner.stats).toMatchObject({ state: 'searching', instances: 4 })
  }
  const settled = async () => {
    for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  }
  const rateOf = ({ instances }: ThroughputSetting) => 100 * (1 + 0.2 * (instances - 1))

  it('in which an instance is lost for good is the last of so many', async () => {
    const model = new TunedModel(rateOf)
    await trying(model)
    model.tuner.lost()
    await settled()
    expect(model.setting).toEqual({ instances: 1, batchRows: 32 })
    model.used.length = 0
    await model.serve(10 * minuteMs)
    expect(model.tuner.stats).toMatchObject({ searchCount: 1, instances: 3 })
    expect(Math.max(...model.used.map(({ instances }) => instances))).toBe(3)
  })

  it('ends where somebody else is changing the instances, whose number stays', async () => {
    const model = new TunedModel(rateOf)
    await trying(model)
    model.changing = true
    while (model.tuner.stats.state === 'searching') await model.serve(100)
    model.changing = false
    model.scale(3)
    model.used.length = 0
    await model.serve(50_000)
    expect(new Set(model.used.map(({ instances }) => instances))).toEqual(new Set([3]))
  })

  it('leaves no small batches behind when the model is closed in the middle of it', async () => {
    const model = new TunedModel(rateOf)
    await trying(model)
    while (model.setting.batchRows === 32) await model.serve(100)
    model.tuner.close()
    expect(model.setting.batchRows).toBe(32)
  })

  it('has never more instances than it may, also where more are in use', async () => {
    const model = new TunedModel(rateOf, { maxInstances: 2 })
    model.scale(6)
    await model.serve(2 * minuteMs)
    expect(new Set(model.used.map(({ instances }) => instances))).toEqual(new Set([6, 1, 2]))
  })
})

describe('throughput tuner', () => {
  const minuteMs = 60_000
  /** As a network that streams are better for: every instance more gives more, and batches nothing. */
  const streams = ({ instances, batchRows }: ThroughputSetting) =>
    100 * (1 + 0.05 * (instances - 1)) - batchRows / 8
  /** As one that reads large weights: batches give much, and instances nothing. */
  const batches = ({ batchRows }: ThroughputSetting) => 50 * Math.sqrt(batchRows)

  describe('a tuned model', () => {
    it('takes instances without batches where these give more', async () => {
      const model = new TunedModel(streams)
      await model.serve(2 * minuteMs)
      expect(model.tuner.stats).toMatchObject({
        state: 'watching',
        instances: 4,
        batchRows: 1,
        searchCount: 1,
        decision: 'changed',
        finalTurns: { instances: 4, batchRows: 1 },
      })
      expect(model.setting).toEqual({ instances: 4, batchRows: 1 })
      expect(model.tuner.stats.tried.length).toBe(12)
    })

    it('keeps batches where these give more', async () => {
      const model = new TunedModel(batches)
      await model.serve(2 * minuteMs)
      expect(model.tuner.stats).toMatchObject({
        state: 'watching',
        instances: 1,
        batchRows: 32,
        searchCount: 1,
        decision: 'no-gain',
      })
      expect(model.setting).toEqual({ instances: 1, batchRows: 32 })
    })

    it('tries nothing before there is as much to do as it can do', async () => {
      const model = new TunedModel(streams)
      model.demand = 0.7
      await model.serve(5 * minuteMs)
      expect(model.used).toEqual([{ instances: 1, batchRows: 32 }])
      expect(model.tuner.stats).toEqual({
        state: 'watching',
        instances: 1,
        batchRows: 32,
        searchCount: 0,
        tried: [],
        decision: null,
        finalTurns: null,
      })
      expect(model.clock.timers).toBe(0)
    })

    it('tells what is in use while it searches, and what it has tried so far', async () => {
      const model = new TunedModel(streams)
      while (model.tuner.stats.state === 'watching') await model.serve(100)
      const told: { used: ThroughputSetting; tried: number }[] = []
      while (model.tuner.stats.state === 'searching') {
        const { instances, batchRows, tried } = model.tuner.stats
        expect({ instances, batchRows }).toEqual(model.setting)
        told.push({ used: { instances, batchRows }, tried: tried.length })
        await model.serve(100)
      }
      expect(new Set(told.map(({ used }) => JSON.stringify(used))).size).toBe(12)
      expect(told.map(({ tried }) => tried)).toEqual(told.map(({ tried }) => tried).toSorted((a, b) => a - b))
      expect([...new Set(told.map(({ tried }) => tried))]).toEqual(
        Array.from({ length: 13 }, (_, tried) => tried),
      )
    })

    it('rests after a search, as long as the load is the same', async () => {
      const model = new TunedModel(streams)
      await model.serve(2 * minuteMs)
      model.used.length = 0
      await model.serve(60 * minuteMs)
      expect(model.used).toEqual([{ instances: 4, batchRows: 1 }])
      expect(model.clock.timers).toBe(0)
    })

    it('looks again when it gives less than before for long, ever more rarely', async () => {
      let factor = 1
      const model = new TunedModel((setting) => factor * (factor < 1 ? batches(setting) : streams(setting)))
      await model.serve(2 * minuteMs)
      factor = 0.4
      await model.serve(5 * minuteMs)
      expect(model.tuner.stats).toMatchObject({ searchCount: 2, batchRows: 32 })
      for (let swing = 0; swing < 200; swing++) {
        factor = swing % 2 === 0 ? 1 : 0.4
        await model.serve(minuteMs)
      }
      expect(model.tuner.stats.searchCount).toBeLessThan(10)
    })

    it('goes back to what it had when the load is gone in the middle of a search', async () => {
      const model = new TunedModel(streams)
      while (model.tuner.stats.state === 'watching') await model.serve(100)
      await model.serve(3000)
      model.clock.advanceBy(minuteMs)
      await Promise.resolve()
      await Promise.resolve()
      expect(model.setting).toEqual({ instances: 1, batchRows: 32 })
      expect(model.tuner.stats).toMatchObject({ state: 'watching', searchCount: 0 })
      expect(model.clock.timers).toBe(0)
    })

    it('goes back to what it had when it is given up while instances are opened', async () => {
      const model = new TunedModel(({ instances }) => 1000 * instances)
      const opened = deferred<void>()
      const divide = model.divideCores.bind(model)
      let last = opened.promise
      let isAsked = false
      model.divideCores = (instances) => {
        isAsked = true
        return (last = last.then(() => divide(instances)))
      }
      while (!isAsked) await model.serve(100)
      const givenUp = model.tuner.giveUp()
      opened.resolve()
      await givenUp
      await last
      expect(model.setting).toEqual(present)
    })

    it('does not undo what somebody else has begun to change in the middle of a search', async () => {
      const model = new TunedModel(streams)
      while (model.tuner.stats.state === 'watching') await model.serve(100)
      model.changing = true
      await model.serve(minuteMs)
      expect(new Set(model.used.map(({ instances }) => instances))).toEqual(new Set([1]))
      model.changing = false
      model.scale(3)
      expect(model.tuner.stats).toMatchObject({ state: 'watching', instances: 3, searchCount: 0 })
      expect(model.setting.instances).toBe(3)
    })

    it('leaves out what cannot be had, what shares workers, and what takes too much memory', async () => {
      const lacking = new TunedModel(streams)
      lacking.lacking = 3
      await lacking.serve(2 * minuteMs)
      expect(lacking.tuner.stats).toMatchObject({ instances: 2, batchRows: 1 })

      const shared = new TunedModel(streams)
      shared.workers = 1
      await shared.serve(2 * minuteMs)
      expect(shared.tuner.stats).toMatchObject({ instances: 1, batchRows: 1 })

      const large = new TunedModel(streams, { maxMemoryBytes: 15 })
      large.bytesPerInstance = 10
      await large.serve(2 * minuteMs)
      expect(large.tuner.stats).toMatchObject({ instances: 2, batchRows: 1 })
    })

    it('has no more instances than it may', async () => {
      const model = new TunedModel(streams, { maxInstances: 2 })
      await model.serve(2 * minuteMs)
      expect(Math.max(...model.used.map(({ instances }) => instances))).toBe(2)
    })

    it('ends its search when somebody else changes the instances, and starts from there', async () => {
      const model = new TunedModel(batches)
      while (model.tuner.stats.state === 'watching') await model.serve(100)
      model.scale(3)
      expect(model.tuner.stats).toMatchObject({ state: 'watching', instances: 3, batchRows: 32 })
      await model.serve(2 * minuteMs)
      expect(model.tuner.stats).toMatchObject({ instances: 3, batchRows: 32, searchCount: 1 })
    })

    it('does nothing once it is closed', async () => {
      const model = new TunedModel(streams)
      while (model.tuner.stats.state === 'watching') await model.serve(100)
      model.tuner.close()
      model.used.length = 0
      await model.serve(minuteMs)
      expect(model.used.length).toBe(1)
      expect(model.clock.timers).toBe(0)
    })
  })
})

const group = (count: number, minInstances = count, maxInstances = count) => ({
  count,
  minInstances,
  maxInstances,
})

it.each([
  ['one group', [group(1)], 4, [4]],
  ['more in the first that may have more', [group(1), group(1, 1, 3), group(1)], 4, [1, 2, 1]],
  ['more in the last where none may', [group(1), group(1)], 4, [1, 3]],
  ['fewer in the last that may have fewer', [group(2, 1, 3), group(3, 2, 3)], 4, [2, 2]],
  ['fewer in the first that has any where none may', [group(1), group(1)], 1, [0, 1]],
  ['as many as there are', [group(2), group(1)], 3, [2, 1]],
])('%s', (_, groups, total, counts) => {
  expect(divide(groups, total)).toEqual(counts)
})
