import { describe, expect, it } from 'vitest'
import { FairShare, WorkerTime } from '../../src/run/thread-time.ts'
import type { ModelInstance } from '../../src/run/model-instance.ts'
import { FakeClock } from '../fake-clock.ts'

/** Gives turns to whoever is least served among `wanting`, each batch taking the tenant's own time. */
function serve(share: FairShare<string>, wanting: string[], costMs: Record<string, number>, turns: number) {
  const servedMs: Record<string, number> = {}
  for (const tenant of wanting) share.activate(tenant)
  for (let turn = 0; turn < turns; turn++) {
    const { source: tenant } = share.next()!
    share.settle(share.charge(tenant), costMs[tenant]!)
    servedMs[tenant] = (servedMs[tenant] ?? 0) + costMs[tenant]!
  }
  return servedMs
}

describe('FairShare', () => {
  it('divides the time evenly, not the turns', () => {
    const share = new FairShare<string>()
    share.join('heavy')
    share.join('light')
    const servedMs = serve(share, ['heavy', 'light'], { heavy: 100, light: 1 }, 5000)
    expect(servedMs['heavy']! / servedMs['light']!).toBeCloseTo(1, 1)
  })

  it('divides the time by weight', () => {
    const share = new FairShare<string>()
    share.join('one')
    share.join('three', 3)
    const servedMs = serve(share, ['one', 'three'], { one: 7, three: 2 }, 5000)
    expect(servedMs['three']! / servedMs['one']!).toBeCloseTo(3, 1)
    expect(share.activeWeight).toBe(4)
  })

  it('gives no turn to a tenant without work', () => {
    const share = new FairShare<string>()
    for (const tenant of ['a', 'b', 'c']) share.join(tenant)
    expect(share.next()).toBeNull()
    share.activate('b')
    share.activate('b')
    expect([share.next()?.source, share.activeWeight]).toEqual(['b', 1])
    share.deactivate('b')
    expect([share.next(), share.activeWeight]).toEqual([null, 0])
  })

  it('charges what a batch is reckoned to take until it is done', () => {
    const share = new FairShare<string>()
    share.join('a')
    share.join('b')
    for (const tenant of ['a', 'b']) share.activate(tenant)
    const charge = share.charge('a', 50)
    expect(share.next()?.source).toBe('b')
    share.settle(charge, 10)
    share.charge('b', 20)
    expect(share.next()).toMatchObject({ source: 'a', finishMs: 10 })
  })

  it('gives no credit for time in which a tenant wanted nothing', () => {
    const share = new FairShare<string>()
    share.join('steady')
    share.join('idle')
    serve(share, ['steady'], { steady: 10 }, 1000)
    const servedMs = serve(share, ['steady', 'idle'], { steady: 10, idle: 10 }, 100)
    expect(servedMs['idle']).toBeLessThanOrEqual(servedMs['steady']! + 20)
  })

  it('lets a newcomer start level with the others', () => {
    const share = new FairShare<string>()
    share.join('old')
    serve(share, ['old'], { old: 5 }, 100)
    share.join('new')
    const servedMs = serve(share, ['old', 'new'], { old: 5, new: 5 }, 100)
    expect(Math.abs(servedMs['old']! - servedMs['new']!)).toBeLessThanOrEqual(10)
  })

  it('charges two batches in flight separately', () => {
    const share = new FairShare<string>()
    share.join('a')
    const [first, second] = [share.charge('a'), share.charge('a')]
    share.settle(first, 30)
    share.settle(second, 10)
    share.activate('a')
    expect(share.next()).toMatchObject({ source: 'a', finishMs: 40 })
  })

  it('forgets a tenant that parts', () => {
    const share = new FairShare<string>()
    share.join('a')
    share.part('a')
    share.part('a')
    expect([share.activate('a'), share.next()]).toEqual([false, null])
  })
})

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
  time.given(source, 0, 30, false, clock.nowMs())
  time.given(source, 1, 20, false, clock.nowMs())
  expect(time.freeInMs).toBe(50)
  clock.advanceBy(10)
  expect(time.freeInMs).toBe(40)
  time.done(0, 10, clock.nowMs())
  expect(time.freeInMs).toBe(20)
  time.done(1, 20, clock.nowMs())
  expect(time.freeInMs).toBe(0)
})

it('a run that is late is reckoned to be late by as much again, and what waits behind it takes its time after that', () => {
  const { clock, time } = setup()
  time.given(source, 0, 30, false, clock.nowMs())
  time.given(source, 1, 20, false, clock.nowMs())
  clock.advanceBy(30)
  expect(time.freeInMs).toBe(1 + 20) // busy still
  clock.advanceBy(15)
  expect(time.freeInMs).toBe(15 + 20)
})

it('a batch that was taken back costs its source nothing', () => {
  const { clock, time } = setup()
  time.given(source, 0, 30, false, clock.nowMs())
  time.shares.activate(source)
  const { finishMs } = time.shares.next()!
  time.given(source, 1, 20, false, clock.nowMs())
  expect(time.revoked(1)).toMatchObject({ slotId: 1 })
  expect(time.shares.next()).toMatchObject({ finishMs })
  expect(time.freeInMs).toBe(30)
  expect(time.done(1, 20, clock.nowMs())).toBeNull()
})

it('a worker that has just run something is busier than one that has not, and less so later', () => {
  const { clock, time } = setup()
  expect(time.busyShare).toBe(0)
  time.given(source, 0, 30, false, clock.nowMs())
  clock.advanceBy(1000)
  time.done(0, 1000, clock.nowMs())
  const { busyShare } = time
  expect(busyShare).toBeGreaterThan(0.1)
  clock.advanceBy(5000)
  expect(time.busyShare).toBeLessThan(busyShare / 2)
})

it('a worker is busy while it runs what takes long, never more than wholly, and so is one whose thread goes meanwhile', () => {
  const { clock, time } = setup()
  time.given(source, 0, 30, false, clock.nowMs())
  clock.advanceBy(60_000)
  expect(time.runningMs()).toBe(60_000)
  expect(time.busyShare).toBeCloseTo(1, 3)
  time.done(0, 60_000, clock.nowMs())
  expect(time.busyShare).toBeCloseTo(1, 3)
  expect(time.runningMs()).toBe(0)
  clock.advanceBy(60_000)
  time.given(source, 1, 30, false, clock.nowMs())
  clock.advanceBy(60_000)
  time.clear()
  expect(time.busyShare).toBeCloseTo(1, 3)
})

it('a worker that runs for half of the time is half busy, however long its runs are', () => {
  for (const ms of [1, 100]) {
    const { clock, time } = setup()
    for (let at = 0; at < 40_000; at += 2 * ms) {
      time.given(source, 0, ms, false, clock.nowMs())
      clock.advanceBy(ms)
      time.done(0, ms, clock.nowMs())
      clock.advanceBy(ms)
    }
    expect(time.busyShare).toBeCloseTo(0.5, 1)
  }
})
