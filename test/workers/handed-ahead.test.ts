import { describe, expect, it } from 'vitest'
import { fate, fates, House, Served, settled } from './serving.ts'

/** A model whose requests are batches of their own, with one running and one handed ahead on its only worker. */
async function oneAhead(config = {}) {
  const house = await House.open(1)
  const { threads } = house.places[0]!
  const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1, ...config })
  const running = model.send(1)
  threads.current.claim()
  return { house, threads, model, running }
}

describe('a request in a batch that was handed ahead', () => {
  it('times out on its time', async () => {
    const { house, model, threads } = await oneAhead()
    const ahead = model.send(2, { timeoutMs: 50 })
    await settled()
    expect(threads.current.cells).toHaveLength(2)
    house.clock.advanceBy(49)
    expect(await fate(ahead)).toBe('waits')
    house.clock.advanceBy(1)
    expect(await fate(ahead)).toBe('ERR_TIMEOUT')
    expect(threads.current.cells).toHaveLength(1)
  })

  it('is withdrawn at once, and the worker is given the next one instead', async () => {
    const { model, threads } = await oneAhead()
    const controller = new AbortController()
    const ahead = model.send(2, { signal: controller.signal })
    const next = model.send(3)
    await settled()
    controller.abort('withdrawn')
    expect(await fate(ahead)).toBe('withdrawn')
    while (threads.current.finish());
    expect(await fate(next)).toBe(6)
    expect(model.scheduler.counts.snapshot(0).executionCount).toBe(2)
  })

  it('is served after one of a higher level that comes later', async () => {
    const { model, threads } = await oneAhead({
      dynamicBatching: { priorityLevels: 2, defaultPriorityLevel: 2 },
    })
    const low = model.send(2)
    await settled()
    const high = model.send(3, { priority: 1 })
    await settled()
    threads.current.finish()
    expect(await fates([low, high])).toEqual(['waits', 'waits'])
    threads.current.finish()
    expect(await fates([low, high])).toEqual(['waits', 6])
  })

  it('counts towards the limit of the queue', async () => {
    const { model } = await oneAhead({ dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } } })
    const ahead = model.send(2)
    await settled()
    expect(model.scheduler.waiting).toBe(1)
    expect(await fate(model.send(3))).toBe('ERR_QUEUE_FULL')
    expect(await fate(ahead)).toBe('waits')
  })

  it('is rejected when the model is destroyed, and what runs is answered', async () => {
    const { model, threads, running } = await oneAhead()
    const ahead = model.send(2)
    await settled()
    model.scheduler.rejectWaiting()
    expect(await fate(ahead)).toBe('ERR_CLOSED')
    expect(threads.current.cells).toHaveLength(1)
    const drained = model.scheduler.drained()
    threads.current.finish()
    expect(await fate(running)).toBe(2)
    await drained
  })

  it('is done, and accounted for, when it is reported before the batch that ran in front of it', async () => {
    const house = await House.open(1)
    const { threads } = house.places[0]!
    const front = await Served.on(house, 'front', house.places, { maxBatchSize: 1 })
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const first = front.send(1)
    threads.current.claim()
    const requests = [2, 3, 4].map((value) => model.send(value))
    await settled()
    expect(threads.current.cells).toHaveLength(2)
    const reportFirst = threads.current.finishBothLastReportedFirst()
    reportFirst()
    await settled()
    while (threads.current.finish()) await settled()
    expect(await fates([first, ...requests])).toEqual([2, 4, 6, 8])
    expect([model.scheduler.running, model.scheduler.waiting, front.scheduler.running]).toEqual([0, 0, 0])
    await model.scheduler.drained()
    expect(house.keepAlive.holds).toBe(0)
  })

  it('is out of reach once it has started: its timeout does not strike', async () => {
    const { house, model, threads } = await oneAhead()
    const ahead = model.send(2, { timeoutMs: 50 })
    await settled()
    threads.current.cells.shift() // the thread is done with the first one, and has claimed this one: nobody knows yet
    threads.current.claim()
    house.clock.advanceBy(60)
    expect(await fate(ahead)).toBe('waits')
    threads.current.finish()
    expect(await fate(ahead)).toBe(4)
  })
})

describe('a batch that was handed ahead', () => {
  it('is given back for another model that has work, so that they take turns', async () => {
    const { house, model, threads } = await oneAhead()
    const other = await Served.on(house, 'other', [], { maxBatchSize: 1 })
    const opened = other.joins(house.places[0]!)
    threads.current.finish()
    await opened
    const sent = [model.send(1), model.send(2), model.send(3)]
    for (const each of sent) model.scheduler.times.runTimes.observe(each.request.bucketKey, 1, 10)
    while (threads.current.finish());
    const again = [model.send(1), model.send(2)]
    await settled()
    const newcomer = other.send(5)
    await settled()
    threads.current.finish()
    threads.current.finish()
    expect(await fates([...again, newcomer])).toEqual([2, 'waits', 10])
  })

  it('is given back for a task, which has the next turn', async () => {
    const { house, model, threads, running } = await oneAhead()
    const other = await Served.on(house, 'other', [], { maxBatchSize: 1 })
    for (let run = 0; run < 30; run++)
      model.scheduler.times.runTimes.observe(running.request.bucketKey, 1, 10)
    const ahead = model.send(2)
    await settled()
    expect(threads.current.cells).toHaveLength(2)
    const opened = other.joins(house.places[0]!)
    await settled()
    expect(threads.current.cells).toHaveLength(1)
    threads.current.finish()
    await opened
    expect(await fates([running, ahead])).toEqual([2, 'waits'])
    threads.current.finish()
    expect(await fate(ahead)).toBe(4)
  })

  it('stays where it is when another model is offered that has none', async () => {
    const { house, model, threads } = await oneAhead()
    const other = await Served.on(house, 'other', [], { maxBatchSize: 1 })
    const opened = other.joins(house.places[0]!)
    threads.current.finish()
    await opened
    const sent = model.send(1)
    for (let run = 0; run < 30; run++) model.scheduler.times.runTimes.observe(sent.request.bucketKey, 1, 10)
    threads.current.claim()
    model.send(2)
    await settled()
    const before = threads.current.cells[1]
    expect(before).toBeDefined()
    other.scheduler.wake()
    expect(threads.current.cells[1]).toBe(before)
  })
})

describe('of two instances', () => {
  it('the one that is free soonest is handed a batch ahead', async () => {
    const house = await House.open(2)
    const [first, second] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const { request } = model.send(0)
    first!.threads.current.finish()
    for (let run = 0; run < 30; run++) model.scheduler.times.runTimes.observe(request.bucketKey, 1, 100)
    model.send(1)
    first!.threads.current.claim()
    house.clock.advanceBy(60)
    model.send(2)
    second!.threads.current.claim()
    model.send(3)
    await settled()
    expect(house.places.map(({ threads }) => threads.current.cells.length)).toEqual([2, 1])
  })

  it('an idle one takes from a busy one what waits there', async () => {
    const house = await House.open(2)
    const [first, second] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    model.send(1)
    const quick = model.send(2)
    first!.threads.current.claim()
    second!.threads.current.claim()
    const ahead = [model.send(3), model.send(4)]
    await settled()
    expect(house.places.map(({ threads }) => threads.current.cells.length)).toEqual([2, 2])
    while (second!.threads.current.finish());
    expect(await fates([quick, ...ahead])).toEqual([4, 6, 8])
    expect(first!.threads.current.cells).toHaveLength(1)
  })

  it('an idle one takes it also after a run of another model', async () => {
    const house = await House.open(2)
    const [first, second] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const other = await Served.on(house, 'n', [second!], { maxBatchSize: 1 })
    other.send(1)
    second!.threads.current.claim()
    model.send(2)
    first!.threads.current.claim()
    const ahead = model.send(3)
    await settled()
    const places = [first!, second!]
    const holder = places.find(({ threads }) => threads.current.cells.length === 2)!
    const free = places.find((place) => place !== holder)!
    while (free.threads.current.finish()) await settled()
    expect(await fate(ahead)).toBe(6)
    expect(holder.threads.current.cells).toHaveLength(1)
  })
})
