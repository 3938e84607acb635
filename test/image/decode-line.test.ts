import { describe, expect, it, onTestFinished } from 'vitest'
import { DecodeLine, type DecodeTask, imageConcurrency } from '../../src/features/image/decode-queue.ts'
import { FakeClock } from '../fake-clock.ts'
import { deferred } from '../support/deferred.ts'
import { settled } from '../workers/serving.ts'

/** A line whose tasks end when a test says so. */
async function lineOf(concurrency: number, ...tasksMs: number[]) {
  const before = imageConcurrency()
  imageConcurrency(concurrency)
  const clock = new FakeClock()
  const line = new DecodeLine(() => clock.nowMs())
  const gates = tasksMs.map(() => deferred<void>())
  onTestFinished(async () => {
    for (const { resolve } of gates) resolve()
    await settled()
    imageConcurrency(before)
  })
  for (const [order, estimatedMs] of tasksMs.entries()) {
    const task: DecodeTask = { heapIndex: -1, level: 0, order, estimatedMs, run: () => gates[order]!.promise }
    line.add(task)
  }
  await settled()
  return { line, clock, gates }
}

describe('when all that a decoder has will be done', () => {
  it('is when the longest is that runs', async () => {
    const { line, clock } = await lineOf(2, 30_000, 100)
    expect(line.doneInMs).toBe(30_000)
    clock.advanceBy(10_000)
    expect(line.doneInMs).toBe(20_000)
    clock.advanceBy(30_000)
    expect(line.doneInMs).toBe(39_900) // the shorter one is as late
  })

  it('counts what waits, one after the other or divided among several', async () => {
    const one = await lineOf(1, 100, 100, 100)
    expect(one.line.doneInMs).toBe(300)
    for (const { resolve } of one.gates) resolve()
    await settled()
    expect(one.line.doneInMs).toBe(0)
    const two = await lineOf(2, 100, 100, 100, 100)
    expect(two.line.doneInMs).toBe(250)
    two.gates[0]!.resolve()
    two.gates[1]!.resolve()
    await settled()
    expect(two.line.doneInMs).toBe(100)
  })
})
