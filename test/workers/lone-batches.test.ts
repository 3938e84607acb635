import { describe, expect, it } from 'vitest'
import { fates, House, Served, settled } from './serving.ts'

/** A model with an instance on each of two workers, whose batches have a row each. */
async function twoInstances(config = {}) {
  const house = await House.open(2)
  const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1, ...config })
  const threads = house.places.map((place) => place.threads.current)
  /** Whether the batches that the threads have are to have all cores. */
  const present = () => threads.flatMap(({ cells }) => cells.map(({ isLone }) => isLone))
  /** Answers a request that comes alone; returns whether it had all cores. */
  const alone = async (tookMs: (isLone: boolean) => number): Promise<boolean> => {
    const sent = model.send(1)
    await settled()
    const [isLone] = present()
    for (const thread of threads) thread.finish(null, tookMs(isLone!))
    expect(await fates([sent])).toEqual([2])
    return isLone!
  }
  return { house, model, threads, present, alone }
}

describe('a batch of a model with two instances', () => {
  it('has all cores when it is alone', async () => {
    const { alone } = await twoInstances()
    expect(await alone(() => 5)).toBe(true)
  })

  it('has the share of its instance while another batch runs', async () => {
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

  it('has the share of its instance while the other worker has work of another model', async () => {
    const { house, model, present } = await twoInstances()
    const other = await Served.on(house, 'other', [house.places[1]!])
    other.send(1)
    await settled()
    model.send(2)
    await settled()
    expect(present()).toEqual([false, false])
  })

  it('of several requests has the share of its instance: the memory of a large run is not taken twice', async () => {
    const { model, present } = await twoInstances({ maxBatchSize: 8 })
    for (let value = 0; value < 8; value++) model.send(value)
    await settled()
    expect(present()).toEqual([false])
  })

  it('has the share of its instance where all cores turn out to be slower, and is tried again now and then', async () => {
    const { alone } = await twoInstances()
    const had: boolean[] = []
    for (let run = 0; run < 64; run++) had.push(await alone((isLone) => (isLone ? 9 : 4)))
    expect(had.slice(0, 4)).toEqual([true, false, true, false])
    expect(had.filter(Boolean).length).toBeLessThan(8)
    for (let run = 0; run < 128; run++) had.push(await alone((isLone) => (isLone ? 2 : 4)))
    expect(had.at(-1)).toBe(true)
  })
})

describe('a batch of a model with one instance', () => {
  it('is never told apart', async () => {
    const house = await House.open(1)
    const model = await Served.on(house, 'm', house.places)
    model.send(1)
    await settled()
    expect(house.places[0]!.threads.current.cells.map(({ isLone }) => isLone)).toEqual([false])
  })
})
