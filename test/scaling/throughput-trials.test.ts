import { describe, expect, it } from 'vitest'
import type { ThroughputSetting } from '../../src/models/scaling/throughput-search.ts'
import { TunedModel } from './tuned-model.ts'
import { TunedQueue } from './tuned-queue.ts'

const minuteMs = 60_000
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
  it.each([0.5, 0.8, 0.95])(
    'that come at %f of what can be done wait little longer for the sake of trials, and none in vain',
    async (share) => {
      const queue = new TunedQueue(batches, { timeoutMs: 1000 })
      await queue.serve(5 * minuteMs, { rate: () => share * queue.capacity(initial) })
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
      await queue.serve(5 * minuteMs, { callers: () => callers })
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
    await queue.serve(5 * minuteMs, { rate: () => 1.5 * queue.capacity(initial) })
    expect(queue.overloadCount).toBeGreaterThan(1000)
    expect(queue.capacity(queue.tuner.stats)).toBeGreaterThan(1.1 * queue.capacity(initial))
  })
})

describe('settings', () => {
  it.each([1, 2, 3])('that do more are found by their rows (seed %i)', async (seed) => {
    const queue = new TunedQueue(streams, { seed })
    await queue.serve(5 * minuteMs, { callers: () => 64 })
    const most = Math.max(
      ...[1, 2, 4].flatMap((instances) =>
        [1, 2, 8, 32].map((batchRows) => queue.capacity({ instances, batchRows })),
      ),
    )
    expect(queue.capacity(queue.tuner.stats)).toBeGreaterThan(0.9 * most)
  })

  it('stay as they are where nothing makes a difference, or the load is less than what can be done, in nine of ten', async () => {
    let moved = 0
    for (let seed = 1; seed <= 15; seed++) {
      const busy = new TunedQueue(alike, { seed, cores: 2, noise: 0.1 })
      await busy.serve(2 * minuteMs, { callers: () => 16 })
      const part = new TunedQueue(batches, { seed })
      await part.serve(minuteMs, { rate: () => 0.6 * part.capacity(initial) })
      for (const { tuner: { stats } } of [busy, part]) if (stats.instances !== 1 || stats.batchRows !== 32) moved++ // prettier-ignore
    }
    expect(moved).toBeLessThanOrEqual(3)
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
    for (const queue of [swinging, adverse]) {
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
    await queue.serve(30 * minuteMs, { callers: () => 64 })
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
