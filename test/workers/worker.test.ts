import { describe, expect, it, vi } from 'vitest'
import type { Executor, ExecutorEvents } from '../../src/run/executors/executor.ts'
import { InlineBudget, RunPlace } from '../../src/run/thread-time.ts'
import type { ModelInstance, PreparedBatch } from '../../src/run/model-instance.ts'
import { Worker } from '../../src/run/worker.ts'
import type { ThreadSource } from '../../src/run/worker-threads.ts'
import { FakeClock } from '../fake-clock.ts'

interface Bench {
  readonly start?: () => Promise<void>
  readonly executor?: Partial<Executor>
  readonly inline?: InlineBudget
}

/** A worker over threads that are no threads. */
function bench({ start = async () => {}, executor = {}, inline }: Bench) {
  const clock = new FakeClock(1000)
  const events: ExecutorEvents[] = []
  const threads: ThreadSource = {
    inline: inline ?? null,
    newThread: (told) => {
      events.push(told)
      return {
        executor: {
          submit: vi.fn(),
          revoke: () => true,
          drainCompletions: vi.fn(),
          abandon: vi.fn(),
          ...executor,
        } as unknown as Executor,
        start,
        failure: async () => 'it died',
        detach: async () => {},
        end: async () => {},
      }
    },
  }
  const changed = vi.fn()
  return { clock, events, changed, worker: new Worker(threads, clock, changed) }
}

const instance = (members: Partial<ModelInstance>) =>
  ({
    weight: 1,
    mayBePlaced: false,
    runPlace: new RunPlace(),
    prefetchedElsewhere: false,
    chooseRows: () => {},
    started: () => {},
    finished: () => {},
    ...members,
  }) as unknown as ModelInstance

const batch = (members: Partial<PreparedBatch>): PreparedBatch => ({
  slotId: 0,
  preparedAtMs: 1000,
  layoutIndex: 0,
  mailed: null,
  runMs: 0,
  isExclusive: false,
  elsewhere: false,
  inlineMs: members.runMs ?? 0,
  onSecond: false,
  inHalves: false,
  ...members,
})

describe('a worker', () => {
  it('whose first thread dies over its start has failed, and starts no other', async () => {
    let fail!: (reason: Error) => void
    const start = vi.fn(() => new Promise<void>((_, reject) => (fail = reject)))
    const { clock, events, changed, worker } = bench({ start })
    const started = worker.start()
    events[0]!.died()
    fail(new Error('it died'))
    await expect(started).rejects.toThrow('it died')
    clock.advanceBy(60_000)
    expect(start).toHaveBeenCalledOnce()
    expect(changed.mock.calls).toEqual([['failed', 'it died']])
  })

  it('gives batches of others when one instance has thrown', async () => {
    const { worker } = bench({})
    await worker.start()
    const bad = instance({
      nextBatch: () => {
        throw new Error('of its own')
      },
    })
    const good = instance({ nextBatch: vi.fn(() => null) })
    worker.join(bad)
    worker.join(good)
    expect(() => worker.offer(bad)).toThrow('of its own')
    worker.part(bad)
    worker.offer(good)
    expect(good.nextBatch).toHaveBeenCalled()
  })

  it('whose thread dies charges nothing for what that had not started', async () => {
    const { worker, events } = bench({ executor: { revoke: (slotId) => slotId === 1 } })
    const batches = [30, 20].map((runMs, slotId) => batch({ slotId, runMs }))
    const told: unknown[] = []
    const source = instance({
      hasWaiting: true,
      nextBatch: () => batches.shift() ?? null,
      revoked: (slotId, threadEnded) => void told.push(['revoked', slotId, threadEnded]),
      lost: (slotId, reason) => void told.push(['lost', slotId, reason]),
    })
    const { time } = worker
    worker.join(source)
    await worker.start()
    worker.offer(source)
    expect(time.shares.next()).toMatchObject({ source, finishMs: 50 })
    events[0]!.died()
    await vi.waitFor(() =>
      expect(told).toEqual([
        ['revoked', 1, true],
        ['lost', 0, 'it died'],
      ]),
    )
    expect(time.shares.next()).toMatchObject({ source, finishMs: 30 })
    expect(time.freeInMs).toBe(0)
  })

  it.each([false, true])(
    'runs a short batch here, or on its thread where the batch says so (%s)',
    async (elsewhere) => {
      const done: string[] = []
      const { worker } = bench({
        executor: {
          submit: () => void done.push('on its thread'),
          runHere: () => done.push('here') > 0,
        },
        inline: new InlineBudget(new FakeClock(1000), { maxUs: 100, loopShare: 1 }),
      })
      const batches = [batch({ runMs: 0.05, elsewhere })]
      const source = instance({ hasWaiting: false, nextBatch: () => batches.shift() ?? null })
      worker.join(source)
      await worker.start()
      worker.offer(source)
      expect(done).toEqual([elsewhere ? 'on its thread' : 'here'])
    },
  )

  it.each([
    [
      'a batch may have more rows if its run takes half of what is short, as others could be seen to meanwhile',
      true,
      null,
      0.1,
    ],
    ['a batch may have more rows if its run is short, where all run here', true, 'here', 0.2],
    ['a batch may have more rows if its run is short, where all go to the thread', true, 'elsewhere', 0.2],
    ['no batch has more rows than others where the place of runs is not to be chosen', false, null, 0],
  ] as const)('%s', async (_, mayBePlaced, present, mostMs) => {
    const { worker } = bench({
      executor: { submit: () => {}, runHere: () => true },
      inline: new InlineBudget(new FakeClock(1000), { maxUs: 200, loopShare: 1 }),
    })
    const joined: number[] = []
    const source = instance({
      mayBePlaced,
      runPlace: Object.assign(new RunPlace(), { present }),
      chooseRows: (ms) => void joined.push(ms),
      nextBatch: () => null,
    })
    worker.join(source)
    await worker.start()
    worker.offer(source)
    expect(joined).toEqual([mostMs])
  })

  it('runs a batch here as was chosen for it, by its session and in halves, if it is short there', async () => {
    const done: unknown[] = []
    const { worker, events } = bench({
      executor: {
        submit: (_slot, _layout, _mailed, onSecond) => void done.push(['on its thread', onSecond]),
        runHere: (slotId, _layout, onSecond, inHalves) => {
          done.push(['here', onSecond, inHalves])
          const times = { startMs: 1000, inferStartMs: 1000, inferEndMs: 1000, endMs: 1000, inline: true }
          events[0]!.finished(slotId, times, null, null)
          return true
        },
      },
      inline: new InlineBudget(new FakeClock(1000), { maxUs: 100, loopShare: 1 }),
    })
    const batches = [
      batch({ slotId: 0, runMs: 0.2, inlineMs: 0.05, onSecond: true }),
      batch({ slotId: 2, runMs: 0.05, inHalves: true }),
      batch({ slotId: 1, runMs: 0.05, inlineMs: 0.2, onSecond: true }),
    ]
    const source = instance({
      hasWaiting: false,
      nextBatch: () => batches.shift() ?? null,
    })
    worker.join(source)
    await worker.start()
    worker.offer(source)
    expect(done).toEqual([
      ['here', true, false],
      ['here', false, true],
      ['on its thread', true],
    ])
  })

  it.each(['here', null] as const)(
    'waits for a turn of the event loop before a run that may be inline, and hands nothing over: place %s',
    async (present) => {
      const done: string[] = []
      const turns: (() => void)[] = []
      const clock = new FakeClock(1000)
      const budget = new InlineBudget(clock, { maxUs: 1200, loopShare: 1 }, undefined, (then) =>
        turns.push(then),
      )
      const times = { startMs: 1000, inferStartMs: 1000, inferEndMs: 1000.07, endMs: 1000.07, inline: true }
      const { events, worker } = bench({
        executor: {
          submit: () => void done.push('on its thread'),
          runHere: (slotId) => {
            done.push(`${slotId} here`)
            clock.advanceBy(0.07)
            events[0]!.finished(slotId, times, null, null)
            return true
          },
        },
        inline: budget,
      })
      const batches = [0, 1].map((slotId) => batch({ slotId, runMs: 0.07, preparedAtMs: 1000 + slotId }))
      const source = instance({
        hasWaiting: true,
        runPlace: Object.assign(new RunPlace(), { present, leave: () => {} }),
        nextBatch: () => batches.shift() ?? null,
      })
      worker.join(source)
      await worker.start()
      worker.offer(source)
      expect(done).toEqual(['0 here'])
      worker.dispatch()
      expect(done).toEqual(['0 here'])
      clock.advanceBy(1)
      turns.shift()!()
      expect(done).toEqual(['0 here', '1 here'])
    },
  )

  it('waits for a turn of the event loop after answers of the worker', async () => {
    const done: string[] = []
    const turns: (() => void)[] = []
    const clock = new FakeClock(1000)
    const budget = new InlineBudget(clock, { maxUs: 1200, loopShare: 1 }, undefined, (then) =>
      turns.push(then),
    )
    const { events, worker } = bench({
      executor: {
        submit: (slotId) => void done.push(`${slotId} on its thread`),
        runHere: (slotId) => Boolean(done.push(`${slotId} here`)),
      },
      inline: budget,
    })
    const next = (slotId: number) =>
      batch({ slotId, runMs: 0.07, preparedAtMs: 1000 + slotId, elsewhere: slotId === 0 })
    const batches = [next(0)]
    const source: ModelInstance = instance({
      hasWaiting: true,
      nextBatch: () => batches.shift() ?? null,
      finished() {
        clock.advanceBy(0.2)
        batches.push(next(1))
        worker.offer(source)
      },
    })
    worker.join(source)
    await worker.start()
    worker.offer(source)
    expect(done).toEqual(['0 on its thread'])
    events[0]!.finished(
      0,
      { startMs: 1000, inferStartMs: 1000, inferEndMs: 1000.07, endMs: 1000.07 },
      null,
      null,
    )
    expect(done).toEqual(['0 on its thread'])
    turns.shift()!()
    expect(done).toEqual(['0 on its thread', '1 here'])
  })

  it('waits for no turn before a run of a model that the worker runs throughout', async () => {
    const done: string[] = []
    const budget = new InlineBudget(new FakeClock(1000), { maxUs: 1200, loopShare: 1 })
    vi.spyOn(budget, 'awaitsTurn').mockReturnValue(true)
    const { worker } = bench({
      executor: { submit: (slotId) => void done.push(`${slotId} on its thread`) },
      inline: budget,
    })
    const batches = [batch({ slotId: 0, runMs: 0.07 })]
    const source = instance({
      hasWaiting: true,
      runPlace: Object.assign(new RunPlace(), { present: 'elsewhere' as const }),
      nextBatch: () => batches.shift() ?? null,
    })
    worker.join(source)
    await worker.start()
    worker.offer(source)
    expect(done).toEqual(['0 on its thread'])
  })
})
