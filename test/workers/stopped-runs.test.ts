import { describe, expect, it } from 'vitest'
import type { ModelConfig } from '../../src/index.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import { fate, fates, House, released, Served, settled } from './serving.ts'

/** A model on one worker. */
async function served(config: Omit<ModelConfig, 'path'> = {}) {
  const house = await House.open(1)
  const [place] = house.places
  const model = await Served.on(house, 'a', house.places, config)
  const pass = async (ms: number) => {
    house.clock.advanceBy(ms)
    await settled()
  }
  /** Has whatever runs end as one does that was stopped. */
  const stop = async () => {
    place!.threads.current.finish('it was stopped')
    await settled()
  }
  return { house, model, pass, stop, threads: place!.threads, events: place!.events }
}

const rowsOf = ({ threads }: { threads: { current: { cells: readonly unknown[] } } }) =>
  threads.current.cells.length

describe('maxRunMs', () => {
  it('of a model ends the run of a request that takes longer, and not one that waits for it', async () => {
    const { house, model, pass, stop, threads } = await served({ maxRunMs: 100, maxBatchSize: 1 })
    const [slow, next] = [model.send(1), model.send(2)]
    await settled()
    threads.current.claim()
    await pass(99)
    expect(await fates([slow, next])).toEqual(['waits', 'waits'])
    expect(threads.current.asked).not.toContain('cancel')
    await pass(1)
    expect(await fates([slow, next])).toEqual(['ERR_TIMEOUT', 'waits'])
    expect(threads.current.asked).toContain('cancel')
    await stop()
    await pass(99)
    threads.current.finish()
    expect(await fate(next)).toBe(4)
    expect(model.scheduler.counts.snapshot(0).rejections).toMatchObject({ timeout: 1, execution: 0 })
    expect(house.clock.timers).toBe(0)
    expect(house.keepAlive.holds).toBe(0)
  })

  it('of a model runs halves of a batch until it is known who takes too long', async () => {
    const { model, pass, stop, threads } = await served({ maxRunMs: 100 })
    const sent = [1, 2, 3, 4].map((value) => model.send(value))
    await settled()
    await pass(100)
    expect(await fates(sent)).toEqual(['waits', 'waits', 'waits', 'waits'])
    await stop()
    await pass(100) // the first half, and the first request of it take too long as well
    await stop()
    threads.current.finish() // the second half
    await settled()
    await pass(100)
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 'waits', 6, 8])
    await stop()
    threads.current.finish()
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 4, 6, 8])
    expect(sent.map(({ settlements }) => settlements)).toEqual([1, 1, 1, 1])
  })

  it('of a call ends it wherever it runs, and the others run again', async () => {
    const { model, pass, stop, threads } = await served()
    const sent = [model.send(1, { maxRunMs: 50 }), model.send(2), model.send(3, { maxRunMs: 80 })]
    await settled()
    await pass(50)
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 'waits', 'waits'])
    await stop()
    await pass(79)
    threads.current.finish()
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 4, 6])
    expect(sent.map(({ request }) => request.attempts)).toEqual([1, 2, 2])
  })

  it('of a call counts instead of that of its model', async () => {
    const { model, pass, threads } = await served({ maxRunMs: 100 })
    const patient = model.send(1, { maxRunMs: 1000 })
    await settled()
    await pass(999)
    threads.current.finish()
    expect(await fate(patient)).toBe(2)
  })

  it('counts from the start of a run that waited behind another', async () => {
    const { model, pass, threads } = await served({ maxBatchSize: 1 })
    const [first, second] = [model.send(1), model.send(2, { maxRunMs: 50 })]
    await settled()
    threads.current.claim()
    await pass(200)
    threads.current.finish()
    await pass(49)
    expect(await fates([first, second])).toEqual([2, 'waits'])
    await pass(1)
    expect(await fate(second)).toBe('ERR_TIMEOUT')
  })

  it('ends a request at once that keeps its place among the answers, whoever comes before it', async () => {
    const { model, pass, stop, threads } = await served({ dynamicBatching: { preserveOrdering: true } })
    const [first, limited] = [model.send(1), model.send(2, { maxRunMs: 50 })]
    await settled()
    await pass(50)
    expect(await fates([first, limited])).toEqual(['waits', 'ERR_TIMEOUT'])
    await stop()
    threads.current.finish()
    expect(await fate(first)).toBe(2)
    expect([first, limited].map(({ request }) => request.attempts)).toEqual([2, 1])
  })

  it('of a request that was split ends all of it', async () => {
    const { house, model, pass, stop, threads } = await served({ splitOversized: true, maxBatchSize: 2 })
    const large = model.send(1, { rows: 6, maxRunMs: 50 })
    await settled()
    await pass(50)
    expect(await fate(large)).toBe('ERR_TIMEOUT')
    await stop()
    while (threads.current.finish()) await settled()
    expect(house.keepAlive.holds).toBe(0)
    expect(large.settlements).toBe(1)
  })

  it('has the answer of a run count that ends before it could be stopped', async () => {
    const { model, pass, threads } = await served()
    const sent = [model.send(1, { maxRunMs: 50 }), model.send(2)]
    await settled()
    await pass(50)
    threads.current.finish()
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 4])
  })

  it('keeps no timer for runs that are done', async () => {
    const { house, model, threads } = await served({ maxRunMs: 100 })
    const sent = model.send(1)
    await settled()
    threads.current.finish()
    expect(await fate(sent)).toBe(2)
    expect(house.clock.timers).toBe(0)
  })
})

describe('a run that does not stop', () => {
  it('is left to itself with its thread and its memory; another thread runs the others of its batch', async () => {
    const bench = await served()
    const { model, pass, threads, events } = bench
    const sent = [model.send(1, { maxRunMs: 50 }), model.send(2)]
    await settled()
    threads.current.claim()
    await pass(50)
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 'waits'])
    const left = threads.current
    const before = released.length
    await pass(999)
    expect(threads.executors).toEqual([left])
    await pass(1)
    await pass(0)
    expect(events).toEqual(['started', 'lost: it did not stop a run that was cancelled', 'restored'])
    expect(threads.current).not.toBe(left)
    expect(rowsOf(bench)).toBe(1)
    threads.current.finish()
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 4])
    expect(released).toHaveLength(before) // the old run may still write there
    threads.onDetached[0]!()
    await settled()
    expect(released).toHaveLength(before + 1)
  })

  it('tells nothing of its end that anybody would hear', async () => {
    const { model, pass, threads } = await served({ maxBatchSize: 1 })
    const sent = [model.send(1, { maxRunMs: 50 }), model.send(2)]
    await settled()
    threads.current.claim()
    const left = threads.current
    await pass(50)
    await pass(1000)
    await pass(0)
    left.gone = false
    left.finish()
    expect(await fates(sent)).toEqual(['ERR_TIMEOUT', 'waits'])
    threads.current.finish()
    expect(await fate(sent[1]!)).toBe(4)
  })

  it('is waited for when it cannot be told, and nobody has set it a limit', async () => {
    const { model, pass, threads, events } = await served({ maxBatchSize: 1 })
    threads.canStop = false
    const controller = new AbortController()
    const sent = [model.send(1, { signal: controller.signal }), model.send(2)]
    await settled()
    threads.current.claim()
    controller.abort('enough')
    expect(await fate(sent[0]!)).toBe('enough')
    await pass(5000)
    expect(events).toEqual(['started'])
    while (threads.current.finish()) await settled()
    expect(await fate(sent[1]!)).toBe(4)
  })

  it('is left with other models on its worker, which go on', async () => {
    const { house, pass, threads, model } = await served({ maxBatchSize: 1 })
    const other = await Served.on(house, 'b', house.places)
    const slow = model.send(1, { maxRunMs: 50 })
    threads.current.claim()
    const behind = other.send(2)
    await settled()
    await pass(50)
    await pass(1000)
    await pass(0)
    expect(await fates([slow, behind])).toEqual(['ERR_TIMEOUT', 'waits'])
    while (threads.current.finish()) await settled()
    expect(await fate(behind)).toBe(4)
  })

  it('fails the model when it was the third in a row', async () => {
    const { model, pass, threads } = await served({ maxBatchSize: 1, maxRunMs: 50 })
    for (let run = 0; run < 3; run++) {
      const slow = model.send(1)
      await settled()
      threads.current.claim()
      await pass(50)
      expect(await fate(slow)).toBe('ERR_TIMEOUT')
      await pass(1000)
      await pass(1000)
    }
    expect(model.failure).toContain(
      'died 3 times in a row, last of: it did not stop a run that was cancelled',
    )
  })
})

describe('a model that is destroyed', () => {
  it('rejects what waits and what runs, and stops that', async () => {
    const { house, model, stop, threads } = await served({ maxBatchSize: 1 })
    const sent = [1, 2, 3].map((value) => model.send(value))
    await settled()
    threads.current.claim()
    model.scheduler.destroy()
    expect(await fates(sent)).toEqual(Array(3).fill('ERR_CLOSED'))
    expect(threads.current.asked).toContain('cancel')
    let drained = false
    void model.scheduler.drained().then(() => (drained = true))
    await settled()
    expect(drained).toBe(false)
    await stop()
    expect(drained).toBe(true)
    expect(house.clock.timers).toBe(0)
    expect(sent.map(({ settlements }) => settlements)).toEqual([1, 1, 1])
  })

  it('does not wait for a run that does not stop', async () => {
    const { model, pass, threads } = await served()
    threads.canStop = false
    const running = model.send(1)
    await settled()
    threads.current.claim()
    model.scheduler.destroy()
    expect(await fate(running)).toBe('ERR_CLOSED')
    const drained = model.scheduler.drained()
    await pass(1000)
    await drained
  })
})

describe('a session that is closed while it is being opened', () => {
  async function opening(canStop: boolean) {
    const bench = await served()
    const { house, threads } = bench
    threads.canStop = canStop
    threads.onOpen = () => new Promise(() => {})
    const session = new WorkerSession(
      -1,
      house.places[0]!.worker,
      { model: 'b', options: {}, memory: { limitBytes: Infinity }, maxSampleMs: 0 },
      house.clock,
    )
    const opened = session.open().catch((error: Error) => error.name)
    await settled()
    return { ...bench, session, opened, left: threads.current }
  }

  it('has that stopped, and leaves a thread to itself that does not', async () => {
    const { model, pass, threads, session, opened, left } = await opening(true)
    const behind = model.send(1)
    const closed = session.close()
    expect(left.asked).toContain('cancel -1')
    await pass(999)
    expect(threads.current).toBe(left)
    threads.onOpen = async () => {}
    await pass(1)
    await pass(0)
    expect(await opened).toBe('ThreadEndedError')
    await closed
    expect(threads.current).not.toBe(left)
    threads.current.finish()
    expect(await fate(behind)).toBe(2)
  })

  it('waits for a thread that cannot be told', async () => {
    const { pass, threads, session, left } = await opening(false)
    void session.close()
    await pass(60_000)
    expect(threads.current).toBe(left)
  })
})
