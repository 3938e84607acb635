import { describe, expect, it } from 'vitest'
import type { ThroughputSetting } from '../../src/models/scaling/throughput-search.ts'
import { TunedModel } from './tuned-model.ts'

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
