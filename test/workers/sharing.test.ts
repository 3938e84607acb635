import { describe, expect, it } from 'vitest'
import { deferred } from '../support/deferred.ts'
import { fate, fates, House, Served, settled } from './serving.ts'

describe('what is asked of a worker beside batches', () => {
  it('lets the batches of others pass between its runs', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const serving = await Served.on(house, 'serving', house.places, { maxBatchSize: 1 })
    const loading = await Served.on(house, 'loading', house.places)
    const order: string[] = []
    const sent = [1, 2, 3].map((value) => serving.send(value))
    for (const { answer } of sent) void answer.then(() => order.push('batch'))
    threads.onSample = async () => void order.push('sample')
    const session = loading.sessions[0]!
    const warming = (async () => {
      for (let run = 0; run < 3; run++) await session.runSample([null])
    })()
    for (let turn = 0; turn < 8; turn++) {
      await settled()
      threads.current.finish()
    }
    await warming
    await settled()
    expect(order).toEqual(['batch', 'sample', 'batch', 'sample', 'batch', 'sample'])
    expect(await fates(sent)).toEqual([2, 4, 6])
  })

  it('waits for the batch that runs and no other, and nothing is handed over meanwhile', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    model.send(1)
    threads.current.claim()
    const sampling = deferred<void>()
    threads.onSample = () => sampling.promise
    const asked = model.sessions[0]!.runSample([null])
    const later = model.send(2)
    await settled()
    expect(threads.current.cells).toHaveLength(1)
    threads.current.finish()
    await settled()
    expect(threads.current.cells).toHaveLength(0)
    sampling.resolve()
    await asked
    await settled()
    threads.current.finish()
    expect(await fate(later)).toBe(4)
  })
})

describe('busy models on one worker', () => {
  it.each([3, 7])('share its time by their weights, 1 and %i', async (weight) => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const [light, heavy] = [
      await Served.on(house, 'light', house.places, { maxBatchSize: 1 }),
      await Served.on(house, 'heavy', house.places, { maxBatchSize: 1, weight }),
    ]
    const runs = 40 * (1 + weight)
    const sent = [light, heavy].map((model) => Array.from({ length: runs }, () => model.send(1)))
    for (let run = 0; run < runs; run++) {
      threads.current.claim()
      house.clock.advanceBy(10)
      threads.current.finish()
      await settled()
    }
    const [ofLight, ofHeavy] = sent.map(
      (requests) => requests.filter(({ settlements }) => settlements > 0).length,
    )
    expect(ofHeavy! / ofLight!).toBeGreaterThan(0.95 * weight)
    expect(ofHeavy! / ofLight!).toBeLessThan(1.05 * weight)
  })
})

describe('requests whose data was taken away', () => {
  it('are refused by the thousand, and those among them are answered', { timeout: 20_000 }, async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const running = model.send(1)
    threads.current.claim()
    const detached = Array.from({ length: 9000 }, () => model.send(2))
    const good = [3, 4].map((value) => model.send(value))
    const buffers = detached
      .slice(1)
      .map(({ request }) => (request.data[0] as Float32Array).buffer as ArrayBuffer)
    structuredClone(buffers, { transfer: buffers })
    while (threads.current.finish());
    expect(await fates([running, ...good])).toEqual([2, 6, 8])
    const ends = await Promise.all(
      detached.slice(1).map(({ answer }) => answer.catch(({ code }: { code: string }) => code)),
    )
    expect(new Set(ends)).toEqual(new Set(['ERR_INVALID_ARG']))
    expect([model.scheduler.waiting, model.scheduler.running, house.keepAlive.holds]).toEqual([0, 0, 0])
  })
})

describe('admission', () => {
  it('does not count what waits at lower levels', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const model = await Served.on(house, 'm', house.places, {
      maxBatchSize: 1,
      dynamicBatching: { priorityLevels: 2, defaultPriorityLevel: 2 },
    })
    const first = model.send(1)
    threads.current.finish()
    for (let run = 0; run < 30; run++) model.scheduler.times.runTimes.observe(first.request.bucketKey, 1, 10)
    for (let count = 0; count < 50; count++) model.send(2)
    await settled()
    expect(await fate(model.send(3, { deadlineMs: 100 }))).toBe('ERR_DEADLINE')
    const urgent = model.send(4, { deadlineMs: 100, priority: 1 })
    expect(await fate(urgent)).toBe('waits')
    threads.current.finish()
    threads.current.finish()
    expect(await fate(urgent)).toBe(8)
  })
})

describe('an idle instance', () => {
  const within = { deadlineMs: 500 }

  it('refuses by estimate only after five runs, and accepts a request again when the last run is long ago', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 4 })
    const run = async (options = {}) => {
      const sent = model.send(1, options)
      await settled()
      threads.current.finish(null, 600)
      return fate(sent)
    }
    for (let slow = 0; slow < 5; slow++) expect(await run(within)).toBe(2)
    expect(await fate(model.send(1, within))).toBe('ERR_DEADLINE')
    house.clock.advanceBy(20 * 600 + 1) // by then things may be better
    expect(await run(within)).toBe(2)
    expect(await fate(model.send(1, within))).toBe('ERR_DEADLINE')
  })

  it('estimates a lone request in proportion to the smallest batch that was run', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 4 })
    for (let batch = 0; batch < 6; batch++) {
      const sent = [1, 2, 3, 4].map((value) => model.send(value))
      await settled()
      while (threads.current.finish(null, 800));
      await fates(sent)
    }
    const lone = model.send(1, within)
    expect(await fate(lone)).toBe('waits')
    threads.current.finish()
    expect(await fate(lone)).toBe(2)
  })
})

describe('a lone request of another shape', () => {
  it.each([undefined, 400])(
    'gets its turn within some runs of an overloaded one (with a timeout of %s ms)',
    async (timeoutMs) => {
      const house = await House.open(1)
      const { threads } = house.places[0]!
      const model = await Served.on(house, 'm', house.places, { maxBatchSize: 4 })
      const limits = timeoutMs === undefined ? {} : { timeoutMs }
      const flood = (count: number) => Array.from({ length: count }, () => model.send(1, { ...limits }))
      for (let run = 0; run < 30; run++)
        model.scheduler.times.runTimes.observe(model.send(1).request.bucketKey, 4, 10)
      flood(40)
      threads.current.claim()
      const lone = model.send(5, { length: 3, ...limits })
      let runs = 0
      for (; lone.settlements === 0 && runs < 30; runs++) {
        flood(6) // more than a run serves
        await settled()
        house.clock.advanceBy(10)
        threads.current.finish()
      }
      expect(await fate(lone)).toBe(10)
      expect(runs).toBeLessThan(25)
    },
  )
})
