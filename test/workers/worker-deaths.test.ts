import { describe, expect, it } from 'vitest'
import { deferred } from '../support/deferred.ts'
import { fate, fates, House, Served, settled } from './serving.ts'

const crashed = 'ERR_INSTANCE_CRASHED'

/** Two models on one worker: a batch of the first runs, one of the second was handed ahead behind it. */
async function twoModels(config = {}) {
  const house = await House.open(1)
  const { threads } = house.places[0]!
  const first = await Served.on(house, 'a', house.places, { maxBatchSize: 1, ...config })
  const second = await Served.on(house, 'b', house.places, { maxBatchSize: 1, ...config })
  return { house, threads, first, second }
}

describe('a worker that dies', () => {
  it.each([true, false])(
    'costs a batch that had not started nothing (why it died known first: %s)',
    async (knownFirst) => {
      const { house, threads, first, second } = await twoModels()
      const running = first.send(1)
      threads.current.claim()
      const behind = [second.send(2), second.send(3)]
      await settled()
      threads.current.die('it died', knownFirst)
      await settled()
      expect(await fates([running, ...behind])).toEqual([crashed, 'waits', 'waits'])
      house.clock.advanceBy(0)
      await settled()
      while (threads.current.finish());
      expect(await fates(behind)).toEqual([4, 6])
      expect(behind.map(({ request }) => request.attempts)).toEqual([1, 1])
      expect(house.keepAlive.holds).toBe(0)
    },
  )

  it('before it has started anything, gives back what it was given in its order', async () => {
    const { house, threads, first } = await twoModels()
    const order: number[] = []
    for (const value of [1, 2, 3]) void first.send(value).answer.then(() => order.push(value))
    await settled()
    expect(threads.current.cells).toHaveLength(2)
    threads.current.die()
    await settled()
    house.clock.advanceBy(0)
    await settled()
    while (threads.current.finish()) await settled()
    expect(order).toEqual([1, 2, 3])
  })

  it('has a model fail for the deaths over its own runs only', async () => {
    const { house, threads, first, second } = await twoModels()
    for (let deaths = 0; deaths < 3; deaths++) {
      const running = first.send(1)
      threads.current.claim()
      const behind = second.send(2)
      await settled()
      threads.current.die()
      await settled()
      expect(await fate(running)).toBe(crashed)
      house.clock.advanceBy(1000)
      await settled()
      while (threads.current.finish());
      expect(await fate(behind)).toBe(4)
    }
    expect(first.failure).toMatch(/^its worker died 3 times in a row/)
    expect(second.failure).toBe(null)
  })

  it('over opening one session has each of the others opened once on the next thread', async () => {
    const { house, threads } = await twoModels()
    let deaths = 0
    threads.onOpen = (executor, _, model) => {
      if (model !== 'a' || deaths++ > 0) return Promise.resolve()
      executor.die()
      return new Promise(() => {})
    }
    threads.current.die()
    await settled()
    for (let thread = 0; thread < 3; thread++) {
      house.clock.advanceBy(10_000)
      await settled()
    }
    expect(threads.executors).toHaveLength(3)
    const opened = threads.current.asked.filter((asked) => asked.startsWith('open'))
    expect([opened.length, new Set(opened).size]).toEqual([2, 2])
  })

  it('is not counted again when a suspect is run alone', async () => {
    const { house, threads, first, second } = await twoModels({ rerunAfterCrash: true })
    const deadly = [first.send(1), first.send(1)]
    for (let deaths = 0; deaths < 4; deaths++) {
      threads.current.claim()
      threads.current.die()
      await settled()
      house.clock.advanceBy(10_000)
      await settled()
    }
    expect(await fates(deadly)).toEqual([crashed, crashed])
    expect([first.failure, second.failure]).toEqual([null, null])
    expect(first.scheduler.running + first.scheduler.waiting).toBe(0)
  })

  it('while it is idle, and is given a batch before that is known, hands it to the other instance at once', async () => {
    const house = await House.open(2)
    const [dead, other] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const request = model.send(1)
    expect(dead!.threads.current.cells).toHaveLength(1)
    dead!.threads.current.die()
    await settled()
    other!.threads.current.finish()
    expect(await fate(request)).toBe(2)
  })

  it('hands what was handed ahead behind another model to an idle instance at once', async () => {
    const house = await House.open(2)
    const [dead, other] = house.places
    const first = await Served.on(house, 'a', [dead!], { maxBatchSize: 1 })
    const second = await Served.on(house, 'b', [other!, dead!], { maxBatchSize: 1 })
    first.send(1)
    dead!.threads.current.claim()
    second.send(2)
    other!.threads.current.claim()
    const ahead = [second.send(3), second.send(4)]
    await settled()
    expect(house.places.map(({ threads }) => threads.current.cells.length)).toEqual([2, 2])
    other!.threads.current.finish()
    dead!.threads.current.die()
    await settled()
    while (other!.threads.current.finish());
    expect(await fates(ahead)).toEqual([6, 8])
  })

  it('leaves others serving while it restarts', async () => {
    const house = await House.open(2)
    const [dead, other] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const restart = deferred<void>()
    dead!.threads.onStart = () => restart.promise
    dead!.threads.current.die()
    await settled()
    house.clock.advanceBy(0)
    const requests = [1, 2, 3].map((value) => model.send(value))
    await settled()
    while (other!.threads.current.finish()) await settled()
    expect(await fates(requests)).toEqual([2, 4, 6])
    restart.resolve()
    await settled()
    expect(dead!.events).toEqual(['started', 'lost: it died', 'restored'])
    expect(model.instances.map(({ idle }) => idle)).toEqual([true, true])
  })

  it('is not taken for an idle one by admission, nor reckoned with while another serves', async () => {
    const house = await House.open(2)
    const [dead, other] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const seen = model.send(1)
    other!.threads.current.finish()
    dead!.threads.current.finish()
    model.scheduler.times.runTimes.observe(seen.request.bucketKey, 1, 100)
    for (let run = 0; run < 30; run++) model.scheduler.times.runTimes.observe(seen.request.bucketKey, 1, 100)
    dead!.threads.current.die()
    await settled()
    model.send(1)
    other!.threads.current.claim()
    expect(await fate(model.send(2, { deadlineMs: 150 }))).toBe('ERR_DEADLINE')
    expect(await fate(model.send(2, { deadlineMs: 2500 }))).toBe('waits')
  })
})

describe('a model that is given up', () => {
  it('settles everything although the worker of another batch dies later', async () => {
    const house = await House.open(2)
    const [deadly, other] = house.places
    const model = await Served.on(house, 'm', house.places, { maxBatchSize: 1 })
    const sent = []
    for (let deaths = 0; deaths < 3; deaths++) {
      sent.push(model.send(1), model.send(1))
      for (const { threads } of house.places) threads.current.claim()
      deadly!.threads.current.die()
      await settled()
      if (deaths === 2) break
      house.clock.advanceBy(10_000)
      await settled()
    }
    const waiting = await fates(sent)
    expect(model.failure).toMatch(/3 times/)
    expect(waiting.filter((each) => each === 'waits')).toHaveLength(1)
    const drained = model.scheduler.drained()
    other!.threads.current.die('it died later')
    await settled()
    expect((await fates(sent)).every((each) => each === crashed)).toBe(true)
    await drained
    expect(house.keepAlive.holds).toBe(0)
  })
})

describe('a batch that cannot be handed over', () => {
  it('fails, and the worker goes on with the next', async () => {
    const { house, threads, first } = await twoModels()
    threads.noMemory = true
    const lost = first.send(1)
    await settled()
    expect(await fate(lost)).toBe('ERR_EXECUTION')
    threads.noMemory = false
    const next = first.send(2)
    await settled()
    threads.current.finish()
    expect(await fate(next)).toBe(4)
    expect(house.keepAlive.holds).toBe(0)
  })
})

describe('a session whose thread dies', () => {
  it.each([true, false])(
    'over opening it again is given up after three (why it died known first: %s)',
    async (knownFirst) => {
      const { house, threads, first, second } = await twoModels()
      threads.onOpen = (executor, _session, name) => {
        if (name === 'a') setImmediate(() => executor.die('it died of a', knownFirst))
        return name === 'a' ? new Promise(() => {}) : Promise.resolve()
      }
      const waits = first.send(1)
      threads.current.die()
      for (let deaths = 0; deaths < 6; deaths++) {
        await settled()
        await settled()
        house.clock.advanceBy(5000)
      }
      await settled()
      expect(first.failure).toBe('it died of a')
      expect(await fate(waits)).toBe(crashed)
      expect(second.failure).toBe(null)
      const served = second.send(2)
      threads.current.finish()
      expect(await fate(served)).toBe(4)
    },
  )

  it('and that is closed while it is opened again, is closed on the new one, which lives', async () => {
    const { house, threads, first, second } = await twoModels()
    const opening = deferred<void>()
    threads.onOpen = (_executor, _session, name) => (name === 'a' ? opening.promise : Promise.resolve())
    threads.current.die()
    await settled()
    house.clock.advanceBy(0)
    await settled()
    const closed = first.sessions[0]!.close()
    opening.resolve()
    await closed
    await settled()
    expect(threads.current.asked.filter((each) => each.startsWith('close'))).toHaveLength(1)
    expect(threads.current.gone).toBe(false)
    const served = second.send(2)
    await settled()
    threads.current.finish()
    expect(await fate(served)).toBe(4)
  })

  it('and that has become another model by the time it is opened again, is given up', async () => {
    const { house, threads, first, second } = await twoModels()
    const waits = first.send(1)
    threads.current.die()
    threads.opened = { ...threads.opened, inputs: [{ name: 'other', type: 'float32', shape: ['N'] }] }
    await settled()
    house.clock.advanceBy(0)
    await settled()
    expect(await fate(waits)).toBe(crashed)
    expect([first.failure, second.failure]).toEqual(
      Array(2).fill(expect.stringContaining('its file changed since it was loaded')),
    )
  })

  it('and that is closed before there is a new one, is not opened again', async () => {
    const { house, threads, first, second } = await twoModels()
    threads.current.die()
    await settled()
    await first.sessions[0]!.close()
    house.clock.advanceBy(0)
    await settled()
    expect(threads.current.asked).toEqual([`open ${second.sessions[0]!.id}`, `run ${second.sessions[0]!.id}`])
  })
})

describe('a thread that dies over its start', () => {
  const hangs = () => new Promise<void>(() => {})

  it.each([true, false])(
    'is a start that failed, and after four none is tried any more (why it died known first: %s)',
    async (knownFirst) => {
      const { house, threads, first } = await twoModels()
      threads.onStart = hangs
      const waits = first.send(1)
      threads.current.die()
      for (let starts = 0; starts < 10; starts++) {
        await settled()
        house.clock.advanceBy(5000)
        await settled()
        threads.current.die('it died over its start', knownFirst)
      }
      await settled()
      expect([threads.started, first.failure, house.clock.timers]).toEqual([5, 'it died over its start', 0])
      expect(await fate(waits)).toBe(crashed)
    },
  )

  it('is replaced all the same when it was up by then', async () => {
    const { house, threads, first } = await twoModels()
    threads.onStart = async (executor) => {
      await Promise.resolve()
      if (threads.started === 2) executor.die() // why, is known after the start has succeeded
    }
    threads.current.die()
    await settled()
    house.clock.advanceBy(0)
    const waits = first.send(1)
    await settled()
    house.clock.advanceBy(5000)
    await settled()
    threads.current.finish()
    expect([threads.started, await fate(waits)]).toEqual([3, 2])
  })

  it('leaves a worker that is started for the first time alone', async () => {
    const { house, threads, worker } = House.unstarted()
    threads.onStart = hangs
    const starting = worker.start()
    threads.current.die('it died over its start')
    await expect(starting).rejects.toThrow('it died over its start')
    await settled()
    house.clock.advanceBy(60_000)
    expect([threads.started, worker.threads.givenUp, house.clock.timers]).toEqual([1, true, 0])
  })
})

describe('a worker that is closed', () => {
  it('does not wait for a thread that is being restarted and may never come up', async () => {
    const { house, threads } = await twoModels()
    const [{ worker }] = house.places as [House['places'][0]]
    threads.onStart = () => new Promise(() => {})
    threads.current.die()
    await settled()
    house.clock.advanceBy(0)
    await settled()
    expect(threads.started).toBe(2)
    let ended = false
    void worker.close(30_000).then(() => (ended = true))
    await settled()
    expect(ended).toBe(true)
    expect(threads.current.asked).toContain('abandon')
    expect(house.clock.timers).toBe(0)
  })

  it('restarts nothing any more, and tells of none that is restored', async () => {
    const { house, threads } = await twoModels()
    const [{ worker, events }] = house.places as [House['places'][0]]
    const starting = deferred<void>()
    threads.onStart = () => starting.promise
    threads.current.die()
    await settled()
    house.clock.advanceBy(0)
    const closed = worker.close(1000)
    starting.resolve()
    await closed
    await settled()
    house.clock.advanceBy(60_000)
    expect([threads.started, events, house.clock.timers]).toEqual([2, ['started', 'lost: it died'], 0])
  })
})
