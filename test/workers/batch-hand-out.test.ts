import { expect, it } from 'vitest'
import type { Executor } from '../../src/run/executors/executor.ts'
import { BatchHandOut } from '../../src/run/batch-hand-out.ts'
import type { BatchSource, PreparedBatch } from '../../src/run/batch-source.ts'
import { InlineBudget } from '../../src/run/inline-budget.ts'
import { FakeClock } from '../fake-clock.ts'

it('what a dead thread had not started costs its source nothing', () => {
  const handOut = new BatchHandOut(
    new FakeClock(1000),
    () => {},
    () => {},
  )
  const batches: PreparedBatch[] = [30, 20].map((runMs, slotId) => ({
    slotId,
    layoutIndex: 0,
    mailed: null,
    runMs,
    alone: false,
    elsewhere: false,
  }))
  const told: unknown[] = []
  const source = {
    weight: 1,
    hasWaiting: true,
    nextBatch: () => batches.shift() ?? null,
    takenBack: (slotId: number, threadEnded: boolean) => told.push(['taken back', slotId, threadEnded]),
    lost: (slotId: number, reason: string) => told.push(['lost', slotId, reason]),
  } as unknown as BatchSource
  const executor = { submit: () => {}, takeBack: (slotId: number) => slotId === 1 } as unknown as Executor
  const { time } = handOut
  time.shares.join(source)
  handOut.start(executor)
  handOut.offer(source)
  expect(time.next()).toMatchObject({ source, finishMs: 50 })
  handOut.lost(executor, 'it died', null)
  expect(told).toEqual([
    ['taken back', 1, true],
    ['lost', 0, 'it died'],
  ])
  expect(time.next()).toMatchObject({ source, finishMs: 30 })
  expect(time.freeInMs).toBe(0)
})

it.each([false, true])('a short batch is run here, or by the worker where it says so (%s)', (elsewhere) => {
  const clock = new FakeClock(1000)
  const handOut = new BatchHandOut(
    clock,
    () => {},
    () => {},
    new InlineBudget(clock, { maxUs: 100, loopShare: 1 }),
  )
  const batches: PreparedBatch[] = [
    { slotId: 0, layoutIndex: 0, mailed: null, runMs: 0.05, alone: false, elsewhere },
  ]
  const source = {
    weight: 1,
    hasWaiting: false,
    nextBatch: () => batches.shift() ?? null,
  } as unknown as BatchSource
  const done: string[] = []
  const executor = {
    submit: () => void done.push('by the worker'),
    runHere: () => done.push('here') > 0,
  } as unknown as Executor
  handOut.time.shares.join(source)
  handOut.start(executor)
  handOut.offer(source)
  expect(done).toEqual([elsewhere ? 'by the worker' : 'here'])
})
