import { describe, expect, it } from 'vitest'
import { fate, fates, House, Served, settled } from '../workers/serving.ts'

/** A model with an instance on the first of some workers. */
async function served(workers: number, config = {}) {
  const house = await House.open(workers)
  const model = await Served.on(house, 'm', house.places.slice(0, 1), config)
  return { house, model }
}

/** What came of it so far. */
function outcome(scaling: Promise<void>): () => string {
  let ended = 'goes on'
  scaling.then(
    () => (ended = 'done'),
    ({ message }: Error) => (ended = message),
  )
  return () => ended
}

describe('a worker that dies', () => {
  it('over opening a further instance fails the scaling, and costs nothing else', async () => {
    const { house, model } = await served(2)
    const [, second] = house.places
    second!.threads.onOpen = () => new Promise(() => {})
    const scaling = outcome(model.scale(2))
    await settled()
    second!.threads.current.die()
    await settled()
    expect(scaling()).toBe('The worker thread has ended.')
    expect([model.instances.length, second!.worker.sessions]).toEqual([1, 0])
    const sent = model.send(3)
    await settled()
    house.places[0]!.threads.current.finish()
    expect(await fate(sent)).toBe(6)
  })

  it('after that, and before the instance serves, fails it too', async () => {
    const { house, model } = await served(3)
    let open: () => void = () => {}
    house.places[2]!.threads.onOpen = () => new Promise((resolve) => (open = resolve))
    const scaling = outcome(model.scale(3))
    await settled()
    house.places[1]!.threads.current.die()
    await settled()
    expect(scaling()).toBe('goes on')
    open()
    await settled()
    expect(scaling()).not.toBe('goes on')
    expect(house.places.map(({ worker }) => worker.sessions)).toEqual([1, 0, 0])
  })

  it('with the last run of an instance that leaves ends the scaling, and the session is not opened again', async () => {
    const { house, model } = await served(2, { maxBatchSize: 1, rerunAfterCrash: true })
    await model.scale(2)
    const sent = [model.send(1), model.send(2)]
    await settled()
    const scaling = outcome(model.scale(1))
    await settled()
    expect(scaling()).toBe('goes on')
    const left = house.places.find(({ worker }) => worker !== model.sessions[0]!.worker)!
    left.threads.current.die()
    await settled()
    expect(scaling()).toBe('done')
    const stayed = house.places.find((place) => place !== left)!
    while (stayed.threads.current.finish()) await settled()
    expect((await fates(sent)).toSorted()).toEqual([2, 4])
    house.clock.advanceBy(1000)
    await settled()
    expect(left.threads.current.asked.filter((asked) => asked.startsWith('open'))).toEqual([])
  })
})

describe('an instance that leaves', () => {
  it('gives back what it was handed ahead, which another one answers', async () => {
    const { house, model } = await served(2, { maxBatchSize: 1 })
    await model.scale(2)
    const sent = Array.from({ length: 4 }, (_, index) => model.send(index + 1))
    await settled()
    expect(house.places.map(({ worker }) => worker.time.dispatched.length)).toEqual([2, 2])
    const scaling = outcome(model.scale(1))
    await settled()
    const left = house.places.find(({ worker }) => worker !== model.sessions[0]!.worker)!
    const stayed = house.places.find((place) => place !== left)!
    expect(left.worker.time.dispatched.length).toBe(1)
    left.threads.current.finish()
    await settled()
    expect(scaling()).toBe('done')
    while (stayed.threads.current.finish()) await settled()
    expect((await fates(sent)).toSorted((a, b) => Number(a) - Number(b))).toEqual([2, 4, 6, 8])
    expect(left.worker.sessions).toBe(0)
  })

  it('still has its run stopped when that takes too long', async () => {
    const { house, model } = await served(2, { maxBatchSize: 1, maxRunMs: 50 })
    await model.scale(2)
    const sent = [model.send(1), model.send(2)]
    await settled()
    const scaling = outcome(model.scale(1))
    await settled()
    house.clock.advanceBy(60)
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 'ERR_TIMEOUT'])
    for (const { threads } of house.places) expect(threads.current.asked).toContain('cancel')
    for (const { threads } of house.places) threads.current.finish('it was stopped')
    await settled()
    expect(scaling()).toBe('done')
  })

  it('is the one that cannot serve, or shares a worker, or has nothing to do', async () => {
    const { house, model } = await served(2, { maxBatchSize: 1 })
    await model.scale(3)
    const shared = house.places.find(({ worker }) => worker.sessions === 2)!
    await model.scale(2)
    expect(shared.worker.sessions).toBe(1)
    const busy = model.send(1)
    await settled()
    const idle = house.places.find(({ worker }) => worker.time.dispatched.length === 0)!
    await model.scale(1)
    expect(idle.worker.sessions).toBe(0)
    for (const { threads } of house.places) threads.current.finish()
    expect(await fate(busy)).toBe(2)
    await model.scale(2)
    house.places[0]!.threads.current.die()
    await settled()
    await model.scale(1)
    expect(house.places.map(({ worker }) => worker.sessions)).toEqual([0, 1])
  })
})
