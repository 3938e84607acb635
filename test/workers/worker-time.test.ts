import { expect, it } from 'vitest'
import type { ModelInstance } from '../../src/run/model-instance.ts'
import { WorkerTime } from '../../src/run/fair-share.ts'
import { FakeClock } from '../fake-clock.ts'

const source = {} as ModelInstance

function setup() {
  const clock = new FakeClock(1000)
  const time = new WorkerTime(clock)
  time.shares.join(source)
  return { clock, time }
}

it('a worker is free when its run and what waits behind it are done, as reckoned', () => {
  const { clock, time } = setup()
  expect(time.freeInMs).toBe(0)
  time.given(source, 0, 30, false)
  time.given(source, 1, 20, false)
  expect(time.freeInMs).toBe(50)
  clock.advanceBy(10)
  expect(time.freeInMs).toBe(40)
  time.done(0, 10)
  expect(time.freeInMs).toBe(20)
  time.done(1, 20)
  expect(time.freeInMs).toBe(0)
})

it('a run that is late is reckoned to be late by as much again, and what waits behind it takes its time after that', () => {
  const { clock, time } = setup()
  time.given(source, 0, 30, false)
  time.given(source, 1, 20, false)
  clock.advanceBy(30)
  expect(time.freeInMs).toBe(1 + 20) // busy still
  clock.advanceBy(15)
  expect(time.freeInMs).toBe(15 + 20)
})

it('a batch that was taken back costs its source nothing', () => {
  const { time } = setup()
  time.given(source, 0, 30, false)
  time.shares.activate(source)
  const { finishMs } = time.next()!
  time.given(source, 1, 20, false)
  expect(time.takenBack(1)).toMatchObject({ slotId: 1 })
  expect(time.next()).toMatchObject({ finishMs })
  expect(time.freeInMs).toBe(30)
  expect(time.done(1, 20)).toBeNull()
})

it('a worker that has just run something is busier than one that has not, and less so later', () => {
  const { clock, time } = setup()
  expect(time.busyShare).toBe(0)
  time.given(source, 0, 30, false)
  clock.advanceBy(1000)
  time.done(0, 1000)
  const { busyShare } = time
  expect(busyShare).toBeGreaterThan(0.1)
  clock.advanceBy(5000)
  expect(time.busyShare).toBeLessThan(busyShare / 2)
})

it('a worker is busy while it runs what takes long, never more than wholly, and so is one whose thread goes meanwhile', () => {
  const { clock, time } = setup()
  time.given(source, 0, 30, false)
  clock.advanceBy(60_000)
  expect(time.runningMs).toBe(60_000)
  expect(time.busyShare).toBeCloseTo(1, 3)
  time.done(0, 60_000)
  expect(time.busyShare).toBeCloseTo(1, 3)
  expect(time.runningMs).toBe(0)
  clock.advanceBy(60_000)
  time.given(source, 1, 30, false)
  clock.advanceBy(60_000)
  time.clear()
  expect(time.busyShare).toBeCloseTo(1, 3)
})

it('a worker that runs for half of the time is half busy, however long its runs are', () => {
  for (const ms of [1, 100]) {
    const { clock, time } = setup()
    for (let at = 0; at < 40_000; at += 2 * ms) {
      time.given(source, 0, ms, false)
      clock.advanceBy(ms)
      time.done(0, ms)
      clock.advanceBy(ms)
    }
    expect(time.busyShare).toBeCloseTo(0.5, 1)
  }
})
