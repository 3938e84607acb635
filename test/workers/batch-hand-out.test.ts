import { expect, it } from 'vitest'
import type { Executor } from '../../src/executor/executor.ts'
import { BatchHandOut } from '../../src/workers/batch-hand-out.ts'
import type { BatchSource, PreparedBatch } from '../../src/workers/batch-source.ts'
import { FakeClock } from '../fake-clock.ts'

it('what a dead thread had not started costs its source nothing', () => {
  const handOut = new BatchHandOut(new FakeClock(1000), () => {}, () => {})
  const batches: PreparedBatch[] = [30, 20].map((runMs, slotId) => ({ slotId, layoutIndex: 0, mailed: null, runMs, alone: false, limited: false }))
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
  expect(told).toEqual([['taken back', 1, true], ['lost', 0, 'it died']])
  expect(time.next()).toMatchObject({ source, finishMs: 30 })
  expect(time.freeInMs).toBe(0)
})
