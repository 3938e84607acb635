import { describe, expect, it } from 'vitest'
import { fates, House, Served, settled } from './serving.ts'

/** A model with two instances, on the first two workers. A lone request may have the cores of all workers. */
async function twoInstances(config = {}, workers = 2) {
  const house = await House.open(workers)
  house.loneThreads = workers
  const model = await Served.on(house, 'm', house.places.slice(0, 2), { maxBatchSize: 1, ...config })
  const threads = house.places.map((place) => place.threads.current)
  /** Whether the batches that the threads have are to have all cores. */
  const present = () => threads.flatMap(({ cells }) => cells.map(({ allCores }) => allCores))
  /** Answers a request that comes alone; returns whether it had all cores. */
  const alone = async (tookMs: (allCores: boolean) => number, deadlineMs?: number): Promise<boolean> => {
    const sent = model.send(1, deadlineMs === undefined ? {} : { deadlineMs })
    await settled()
    const [allCores] = present()
    for (const thread of threads) thread.finish(null, tookMs(allCores!))
    expect(await fates([sent])).toEqual([2])
    return allCores!
  }
  return { house, model, threads, present, alone }
}

describe('a request of a model with two instances', () => {
  it('has all cores when it is alone', async () => {
    const { alone } = await twoInstances()
    expect(await alone(() => 5)).toBe(true)
  })

  it('has the share of its instance while another runs', async () => {
    const { model, present } = await twoInstances()
    model.send(1)
    await settled()
    model.send(2)
    await settled()
    expect(present()).toEqual([true, false])
  })

  it('has the share of its instance while another waits', async () => {
    const { model, present } = await twoInstances({ maxBatchSize: 3 })
    for (let value = 0; value < 3; value++) model.send(value, { rows: 2 })
    await settled()
    expect(present().slice(0, 2)).toEqual([false, false])
  })

  it('has the share of its instance while any other worker has work, be it of another model', async () => {
    const { house, model, present } = await twoInstances({}, 3)
    const other = await Served.on(house, 'other', [house.places[2]!])
    other.send(1)
    await settled()
    model.send(2)
    await settled()
    expect(present()).toEqual([false, true])
  })

  it('has the share of its instance where it shares its run', async () => {
    const { model, present } = await twoInstances({ maxBatchSize: 8 })
    for (let value = 0; value < 8; value++) model.send(value)
    await settled()
    expect(present()).toEqual([false])
  })

  it('has the share of its instance where all cores turn out to be slower, and is tried again now and then', async () => {
    const { alone } = await twoInstances()
    const had: boolean[] = []
    for (let run = 0; run < 64; run++) had.push(await alone((allCores) => (allCores ? 7 : 4)))
    expect(had.slice(0, 2)).toEqual([true, false])
    expect(had.filter(Boolean).length).toBeLessThan(10)
    for (let run = 0; run < 128; run++) had.push(await alone((allCores) => (allCores ? 2 : 4)))
    expect(had.at(-1)).toBe(true)
  })

  it('keeps all cores after a run that was held up', async () => {
    const { alone } = await twoInstances()
    const had: boolean[] = []
    for (let run = 0; run < 1200; run++)
      had.push(await alone((allCores) => (run % 50 === 49 ? 60 : allCores ? 10 : 18)))
    expect(had.filter((allCores) => !allCores).length).toBeLessThan(60)
  })

  it('is tried on no threads that are slower where it has a deadline', async () => {
    const { alone } = await twoInstances()
    const had: boolean[] = []
    for (let run = 0; run < 20; run++) had.push(await alone((allCores) => (allCores ? 4 : 7), 10_000))
    expect(had).toEqual(had.map(() => true))
  })

  it('says nothing, on all cores, of how long others take', async () => {
    const { model, alone } = await twoInstances()
    for (let run = 0; run < 40; run++) await alone((allCores) => (allCores ? 4 : 7))
    const { bucketKey } = model.send(1).request
    expect(model.scheduler.times.runTimes.usualMs(bucketKey, 1)).toBe(7)
  })

  it('has all cores still when one instance is left', async () => {
    const { model, alone } = await twoInstances()
    await model.scale(1)
    expect(await alone(() => 5)).toBe(true)
  })
})

describe('a request of a model whose instances have all cores', () => {
  it('is never told apart', async () => {
    const house = await House.open(1)
    const model = await Served.on(house, 'm', house.places)
    model.send(1)
    await settled()
    expect(house.places[0]!.threads.current.cells.map(({ allCores }) => allCores)).toEqual([false])
  })
})

describe('the only instance of a small model', () => {
  async function onlyInstance() {
    const house = await House.open(1)
    house.loneThreads = 2
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 8 })
    const thread = house.places[0]!.threads.current
    /** Answers a batch of so many requests; returns whether it had all cores. */
    const run = async (requests: number, tookMs: (allCores: boolean) => number): Promise<boolean> => {
      const sent = Array.from({ length: requests }, () => model.send(1))
      await settled()
      const { allCores } = thread.cells[0]!
      thread.finish(null, tookMs(allCores))
      expect(await fates(sent)).toEqual(sent.map(() => 2))
      return allCores
    }
    /** The share of 200 such batches that had them. */
    const share = async (requests: number, tookMs: (allCores: boolean) => number): Promise<number> => {
      const had: boolean[] = []
      for (let at = 0; at < 200; at++) had.push(await run(requests, tookMs))
      return had.filter(Boolean).length / had.length
    }
    return { house, model, run, share }
  }

  it('runs batches on one thread where all cores are not half as fast again', async () => {
    const { share } = await onlyInstance()
    expect(await share(8, (allCores) => (allCores ? 3 : 4))).toBeLessThan(0.1)
  })

  it('runs batches on all cores where those are', async () => {
    const { share } = await onlyInstance()
    expect(await share(8, (allCores) => (allCores ? 2 : 4))).toBeGreaterThan(0.9)
  })

  it('chooses for each size of a batch', async () => {
    const { share } = await onlyInstance()
    expect(await share(2, () => 3)).toBeLessThan(0.1)
    expect(await share(8, (allCores) => (allCores ? 2 : 4))).toBeGreaterThan(0.9)
    expect(await share(2, () => 3)).toBeLessThan(0.1)
  })

  it('runs a lone request on whichever is faster', async () => {
    const { share } = await onlyInstance()
    expect(await share(1, (allCores) => (allCores ? 3 : 4))).toBeGreaterThan(0.9)
  })

  it('estimates by the threads that most batches have', async () => {
    const { model, share } = await onlyInstance()
    await share(8, (allCores) => (allCores ? 2 : 4))
    const { bucketKey } = model.send(1).request
    expect(model.scheduler.times.runTimes.usualMs(bucketKey, 8)).toBe(2)
  })
})
