import { describe, expect, it } from 'vitest'
import { ThreadChoice } from '../../src/run/thread-time.ts'
import { fates, House, Served, settled } from './serving.ts'

/** A model with two instances, on the first two workers. A lone request may have the cores of all workers. */
async function twoInstances(config = {}, workers = 2) {
  const house = await House.open(workers)
  house.threads = { intraOpNumThreads: 1, cores: workers }
  const model = await Served.on(house, 'm', house.places.slice(0, 2), { maxBatchSize: 1, ...config })
  const threads = house.places.map((place) => place.threads.current)
  const machine = { isCrowded: true }
  for (const session of model.sessions)
    session.threadChoice = new ThreadChoice('lone requests', () => machine.isCrowded)
  /** Whether the batches that the threads have are to have all cores. */
  const present = () => threads.flatMap(({ cells }) => cells.map(({ onSecond }) => onSecond))
  /** Answers a request that comes alone; returns whether it had all cores. */
  const alone = async (tookMs: (allCores: boolean) => number, deadlineMs?: number): Promise<boolean> => {
    const sent = model.send(1, deadlineMs === undefined ? {} : { deadlineMs })
    await settled()
    const [allCores] = present()
    for (const thread of threads) thread.finish(null, tookMs(allCores!))
    expect(await fates([sent])).toEqual([2])
    return allCores!
  }
  return { house, model, threads, machine, present, alone }
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

  it('is not tried on fewer cores while other processes leave all of them, unless it takes 10 ms at most', async () => {
    const { alone, machine } = await twoInstances()
    machine.isCrowded = false
    const hadIn = async (runs: number, tookMs: (allCores: boolean) => number) => {
      const had: boolean[] = []
      for (let run = 0; run < runs; run++) had.push(await alone(tookMs))
      return had
    }
    expect(await hadIn(64, () => 10.1)).not.toContain(false)
    machine.isCrowded = true
    expect(await hadIn(64, (allCores) => (allCores ? 11 : 9))).toContain(false)
    machine.isCrowded = false
    expect(await hadIn(64, (allCores) => (allCores ? 6 : 9))).toContain(true)
    const short = await twoInstances()
    short.machine.isCrowded = false
    expect(await short.alone(() => 10)).toBe(true)
    expect(await short.alone(() => 10)).toBe(false)
  })

  it('is tried on fewer cores after 512 runs, be the machine free', async () => {
    const { alone, machine } = await twoInstances()
    machine.isCrowded = false
    const had: boolean[] = []
    for (let run = 0; run < 545; run++) had.push(await alone((allCores) => (allCores ? 14 : 11)))
    expect(had.indexOf(false)).toBe(513)
    expect(had.slice(513).filter(Boolean).length).toBeLessThan(8) // it is faster, and the other one is tried now and then
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
    expect(model.scheduler.times.runTimes.of(bucketKey).usualMs(1)).toBe(7)
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
    expect(house.places[0]!.threads.current.cells.map(({ onSecond }) => onSecond)).toEqual([false])
  })
})

describe('a small model whose instances have all cores', () => {
  async function small(config = {}) {
    const house = await House.open(1)
    house.threads = { intraOpNumThreads: 2, cores: 2 }
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 8, ...config })
    const thread = house.places[0]!.threads.current
    /** Answers a batch of so many requests; returns whether it had one thread. */
    const run = async (
      requests: number,
      tookMs: (one: boolean) => number,
      deadlines: readonly (number | undefined)[] = [],
    ): Promise<boolean> => {
      const sent = Array.from({ length: requests }, (_, at) =>
        model.send(1, deadlines[at] === undefined ? {} : { deadlineMs: deadlines[at] }),
      )
      await settled()
      const { onSecond } = thread.cells[0]!
      thread.finish(null, tookMs(onSecond))
      expect(await fates(sent)).toEqual(sent.map(() => 2))
      return onSecond
    }
    /** The share of 200 such batches that had one thread. */
    const share = async (requests: number, tookMs: (one: boolean) => number): Promise<number> => {
      const had: boolean[] = []
      for (let at = 0; at < 200; at++) had.push(await run(requests, tookMs))
      return had.filter(Boolean).length / had.length
    }
    return { house, model, run, share }
  }

  it('has one thread for batches where all cores are less than 1.5 times as fast', async () => {
    const { share } = await small()
    expect(await share(8, (one) => (one ? 1.2 : 1))).toBeGreaterThan(0.9)
  })

  it('has all cores for batches where those are faster', async () => {
    const { share } = await small()
    expect(await share(8, (one) => (one ? 1.6 : 0.9))).toBeLessThan(0.1)
  })

  it('has all cores for long batches, without a try', async () => {
    const { share } = await small()
    expect(await share(8, () => 3)).toBe(0)
  })

  it('chooses for each size of a batch', async () => {
    const { share } = await small()
    expect(await share(2, () => 1)).toBeGreaterThan(0.9)
    expect(await share(8, (one) => (one ? 1.6 : 0.9))).toBeLessThan(0.1)
    expect(await share(2, () => 1)).toBeGreaterThan(0.9)
  })

  it('has for a lone request what is faster', async () => {
    const { share } = await small()
    expect(await share(1, (one) => (one ? 1.2 : 1))).toBeLessThan(0.1)
  })

  it('has all cores again after a first run there that was slow', async () => {
    const { run, share } = await small()
    await run(8, () => 1.9)
    expect(await share(8, (one) => (one ? 1.6 : 0.9))).toBeLessThan(0.1)
  })

  it('makes no estimate of a try', async () => {
    const { model, run } = await small()
    expect(await run(8, () => 1)).toBe(false)
    expect(await run(8, () => 40)).toBe(true)
    const { bucketKey } = model.send(1).request
    expect(model.scheduler.times.runTimes.of(bucketKey).usualMs(8)).toBe(1)
  })

  it('tries one thread with no batch in which a request has a deadline, but with the first one after those', async () => {
    const { run } = await small()
    await run(8, () => 1)
    for (let at = 0; at < 5; at++) expect(await run(8, () => 1, [undefined, undefined, 10_000])).toBe(false)
    expect(await run(8, () => 1)).toBe(true)
  })
})
