import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  afterChange,
  Autoscaler,
  autoscaleStart,
  decideInstances,
  type AutoscaleMemory,
} from '../../src/models/scaling/autoscaler.ts'
import { FakeClock } from '../fake-clock.ts'
import { deferred, type Deferred } from '../support/deferred.ts'
import { repetitions } from '../support/full.ts'
import { follow } from './simulated-load.ts'

const limits = { minInstances: 1, maxInstances: 4, scaleUpAfterMs: 100, scaleDownAfterMs: 5000 }
const countAt = (counts: readonly { atMs: number; count: number }[], atMs: number) =>
  counts.findLast((each) => each.atMs <= atMs)!.count

describe('an autoscaled model under a step in its load', () => {
  const load = {
    runMs: 20,
    openMs: 5,
    untilMs: 180_000,
    seed: 7,
    steps: [
      { fromMs: 0, instances: 0.3 },
      { fromMs: 30_000, instances: 2.4 },
      { fromMs: 90_000, instances: 0.3 },
    ],
  }

  it('grows with it, shrinks with it, and turns but once', async () => {
    const { counts, turns, sent, answered } = await follow(limits, load)
    expect(countAt(counts, 29_999)).toBe(1)
    expect(countAt(counts, 35_000)).toBeGreaterThanOrEqual(3)
    expect(countAt(counts, 89_999)).toBeGreaterThanOrEqual(3)
    expect(countAt(counts, 120_000)).toBe(1)
    expect(turns).toBeLessThanOrEqual(2)
    expect(answered).toBe(sent)
  })

  it('works off what waits within a second of the step', async () => {
    const { waitedMs } = await follow(limits, load)
    const after = waitedMs.filter(({ atMs }) => atMs > 32_000 && atMs < 90_000).map(({ ms }) => ms)
    expect(after.toSorted((a, b) => a - b)[Math.floor(0.99 * after.length)]).toBeLessThan(200)
  })

  it('turns twice at most whatever the step, the runs and the time to open an instance, and loses nothing', async () => {
    const any = fc.record({
      runMs: fc.constantFrom(2, 5, 15, 30), // of which some make up the wait that is too long
      openMs: fc.constantFrom(0, 5, 500, 3000),
      low: fc.constantFrom(0, 0.1, 0.5, 0.9),
      high: fc.constantFrom(1.2, 1.9, 2.5, 3.4, 6),
      seed: fc.integer({ min: 1, max: 1e6 }),
    })
    const property = fc.asyncProperty(any, async ({ runMs, openMs, low, high, seed }) => {
      const steps = [
        { fromMs: 0, instances: low },
        { fromMs: 10_000, instances: high },
        { fromMs: 40_000, instances: low },
      ]
      const { counts, turns, sent, answered } = await follow(limits, {
        runMs,
        openMs,
        untilMs: 70_000,
        seed,
        steps,
      })
      expect(turns).toBeLessThanOrEqual(2)
      for (const { count } of counts) expect(count).toBeGreaterThanOrEqual(1)
      for (const { count } of counts) expect(count).toBeLessThanOrEqual(4)
      expect(countAt(counts, 39_999)).toBeGreaterThanOrEqual(Math.min(4, Math.floor(high)))
      expect(counts.at(-1)!.count).toBe(1)
      expect(answered).toBe(sent)
    })
    await fc.assert(property, { numRuns: repetitions(40, 5) })
  })

  it('leaves no timer behind once it is back at its least', async () => {
    expect((await follow(limits, load)).left).toBe(false)
  })
})

/** An autoscaler over what a test says. */
function scaled() {
  const clock = new FakeClock(1000)
  const state = { changing: false, anyIdle: false, oldestAtMs: Infinity, idle: [1000] as (number | null)[] }
  const asked: number[] = []
  const failures: string[] = []
  let change: Deferred<void> = deferred()
  const target = {
    get changing() {
      return state.changing
    },
    get anyIdle() {
      return state.anyIdle
    },
    get oldestAtMs() {
      return state.oldestAtMs
    },
    usesOf: () =>
      state.idle.map((idleSinceMs) => ({ idleSinceMs, busyMs: idleSinceMs === null ? clock.nowMs() : 0 })),
    resize: (_: number, count: number) => {
      asked.push(count)
      return (change = deferred()).promise
    },
  }
  const autoscaler = new Autoscaler([{ number: 0, limits }], target, clock, ({ message }) =>
    failures.push(message),
  )
  /** Lets time pass while requests come and runs end. */
  const waits = (ms: number) => {
    for (let passed = 0; passed < ms; passed++) {
      clock.stall(1)
      autoscaler.look()
    }
  }
  const settled = async () => {
    for (let turn = 0; turn < 5; turn++) await Promise.resolve()
  }
  const done = async (idle: (number | null)[]) => {
    state.idle = idle
    change.resolve()
    await settled()
  }
  const fail = async (reason: string) => {
    change.reject(new Error(reason))
    await settled()
  }
  return { clock, state, asked, failures, autoscaler, done, fail, waits }
}

describe('an autoscaler', () => {
  it('has no timer at the least, one above it, and none once it is closed', async () => {
    const { clock, state, autoscaler, done, waits } = scaled()
    expect(clock.timers).toBe(0)
    state.oldestAtMs = 1000
    waits(500)
    await done([null, 1500])
    expect(clock.timers).toBe(1)
    autoscaler.close()
    expect(clock.timers).toBe(0)
  })

  it('does not grow while an instance could take what waits', () => {
    const { state, asked, waits } = scaled()
    Object.assign(state, { oldestAtMs: 1000, anyIdle: true })
    waits(5000)
    expect(asked).toEqual([])
  })

  it('does not grow for a burst that is worked off meanwhile', () => {
    const { clock, state, asked, waits } = scaled()
    for (let burst = 0; burst < 10; burst++) {
      state.oldestAtMs = clock.nowMs()
      waits(375)
      state.oldestAtMs = Infinity
      waits(50)
    }
    expect(asked).toEqual([])
  })

  it('does not grow while what waits is being worked off', () => {
    const { clock, state, asked, waits } = scaled()
    for (let oldMs = 5000; oldMs > 150; oldMs *= 0.7) {
      state.oldestAtMs = clock.nowMs() - oldMs
      waits(150)
    }
    expect(asked).toEqual([])
  })

  it('asks for nothing more before a change has taken effect and had time to tell', async () => {
    const { state, asked, done, waits } = scaled()
    state.oldestAtMs = 1000
    waits(399)
    expect(asked).toEqual([])
    waits(1000)
    expect(asked).toEqual([2])
    await done([null, null])
    waits(299)
    expect(asked).toEqual([2])
    waits(30)
    expect(asked).toEqual([2, 3])
  })

  it('shrinks by its timer, in an application that sends nothing more', async () => {
    const { clock, state, asked, autoscaler, done } = scaled()
    state.idle = [1000, 1000, 1000]
    autoscaler.changed()
    clock.advanceBy(5000)
    expect(asked).toEqual([2])
    await done([1000, 1000])
    clock.advanceBy(5000)
    expect(asked).toEqual([2, 1])
    await done([1000])
    expect(clock.timers).toBe(0)
  })

  it('tells of a change that could not be made, and waits before it tries again', async () => {
    const { state, asked, failures, fail, waits } = scaled()
    state.oldestAtMs = 1000
    waits(500)
    await fail('no memory')
    expect(failures).toEqual(['no memory'])
    waits(4999)
    expect(asked).toEqual([2])
    waits(50)
    expect(asked).toEqual([2, 2])
  })

  it('leaves a change alone that somebody else makes, and judges anew after it', () => {
    const { state, asked, autoscaler, waits } = scaled()
    Object.assign(state, { oldestAtMs: 1000, changing: true })
    waits(500)
    expect(asked).toEqual([])
    Object.assign(state, { changing: false, idle: [null, null] })
    autoscaler.changed()
    waits(299)
    expect(asked).toEqual([])
    waits(30)
    expect(asked).toEqual([3])
  })

  it('makes good for an instance that was lost', () => {
    const { state, asked, autoscaler } = scaled()
    state.idle = []
    autoscaler.changed()
    expect(asked).toEqual([1])
  })
})

describe('autoscale policy', () => {
  const limits = { minInstances: 1, maxInstances: 4, scaleUpAfterMs: 100, scaleDownAfterMs: 1000 }
  const memory = (changes: Partial<AutoscaleMemory> = {}): AutoscaleMemory => ({
    ...autoscaleStart(0),
    ...changes,
  })
  const moment = (changes: object = {}) => ({
    nowMs: 10_000,
    instances: 2,
    oldestWaitMs: 0,
    tooLongForMs: 0,
    idleMs: 0,
    busyInstances: 2,
    measuredMs: 0,
    ...changes,
  })

  describe('a group of instances', () => {
    it('grows by one when requests go on waiting for too long, and not before', () => {
      expect(decideInstances(limits, memory(), moment({ oldestWaitMs: 99 }))).toEqual({
        instances: 2,
        upAtMs: 10_001,
        downAtMs: 11_000,
      })
      expect(decideInstances(limits, memory(), moment({ oldestWaitMs: 100 }))).toMatchObject({
        instances: 2,
        upAtMs: 10_025,
      })
      expect(
        decideInstances(limits, memory(), moment({ oldestWaitMs: 150, tooLongForMs: 299 })),
      ).toMatchObject({
        instances: 2,
        upAtMs: 10_025,
      })
      expect(
        decideInstances(limits, memory(), moment({ oldestWaitMs: 150, tooLongForMs: 300 })).instances,
      ).toBe(3)
    })

    it('grows for nothing while no change is to be made', () => {
      expect(
        decideInstances(
          limits,
          memory({ changedAtMs: 10_050 }),
          moment({ oldestWaitMs: 5000, tooLongForMs: 5000 }),
        ),
      ).toMatchObject({ instances: 2, upAtMs: 10_050 })
      expect(
        decideInstances(limits, memory({ changedAtMs: 10_050 }), moment({ instances: 0 })),
      ).toMatchObject({
        instances: 0,
        upAtMs: 10_050,
      })
    })

    it('shrinks by one when an instance was idle for long enough, and not soon after another change', () => {
      expect(decideInstances(limits, memory(), moment({ idleMs: 1000 })).instances).toBe(1)
      expect(decideInstances(limits, memory(), moment({ idleMs: 400 }))).toEqual({
        instances: 2,
        upAtMs: 10_100,
        downAtMs: 10_600,
      })
      expect(
        decideInstances(limits, memory({ changedAtMs: 9300 }), moment({ idleMs: 5000, measuredMs: 700 })),
      ).toMatchObject({ instances: 2, downAtMs: 10_300 })
    })

    it('shrinks by one when those left would have been busy for less than half of the time', () => {
      expect(
        decideInstances(limits, memory(), moment({ busyInstances: 0.5, measuredMs: 1000 })).instances,
      ).toBe(1)
      expect(
        decideInstances(limits, memory(), moment({ busyInstances: 0.5, measuredMs: 999 })),
      ).toMatchObject({
        instances: 2,
        downAtMs: 10_001,
      })
      expect(
        decideInstances(limits, memory(), moment({ busyInstances: 0.51, measuredMs: 1000 })),
      ).toMatchObject({ instances: 2, downAtMs: 11_000 })
      expect(
        decideInstances(limits, memory(), moment({ instances: 4, busyInstances: 1.5, measuredMs: 1000 }))
          .instances,
      ).toBe(3)
    })

    it('stays within its limits, has nothing to look for at them, and returns to them', () => {
      expect(
        decideInstances(limits, memory(), moment({ instances: 4, oldestWaitMs: 5000, tooLongForMs: 5000 })),
      ).toMatchObject({ instances: 4, upAtMs: Infinity })
      expect(decideInstances(limits, memory(), moment({ instances: 1, idleMs: 5000 }))).toMatchObject({
        instances: 1,
        downAtMs: Infinity,
      })
      expect(
        decideInstances(limits, memory({ changedAtMs: 10_000 }), moment({ instances: 0 })).instances,
      ).toBe(1)
      expect(
        decideInstances(limits, memory({ changedAtMs: 10_000 }), moment({ instances: 6 })).instances,
      ).toBe(5)
    })

    it('is twice as slow to shrink each time that an instance was soon missed, up to 16 times, and forgets that in time', () => {
      let known = memory()
      let nowMs = 0
      const patience: number[] = []
      for (let round = 0; round < 6; round++) {
        known = afterChange(limits, known, true, (nowMs += 1000))
        known = afterChange(limits, known, false, (nowMs += 500))
        patience.push(known.patience)
      }
      expect(patience).toEqual([2, 4, 8, 16, 16, 16])
      expect(
        decideInstances(limits, known, moment({ nowMs: nowMs + 20_000, idleMs: 15_999 })).instances,
      ).toBe(2)
      expect(
        decideInstances(limits, known, moment({ nowMs: nowMs + 20_000, idleMs: 16_000 })).instances,
      ).toBe(1)
      known = afterChange(limits, known, true, (nowMs += 16_000))
      expect(afterChange(limits, known, false, nowMs + 160_000).patience).toBe(1)
    })

    it('changes by one at most, towards what it is asked for, and says a later time whenever it stays', () => {
      const any = fc.record({
        limits: fc.record({
          minInstances: fc.integer({ min: 1, max: 4 }),
          more: fc.nat(4),
          scaleUpAfterMs: fc.integer({ min: 1, max: 500 }),
          scaleDownAfterMs: fc.integer({ min: 1, max: 5000 }),
        }),
        instances: fc.nat(10),
        oldestWaitMs: fc.nat(1000),
        tooLongForMs: fc.nat(2000),
        busyInstances: fc.double({ min: 0, max: 10, noNaN: true }),
        measuredMs: fc.nat(10_000),
        idleMs: fc.nat(10_000),
        changedAtMs: fc.nat(12_000),
        patience: fc.constantFrom(1, 2, 16),
      })
      fc.assert(
        fc.property(any, ({ limits: { more, ...given }, changedAtMs, patience, ...drawn }) => {
          const own = { ...given, maxInstances: given.minInstances + more }
          const decision = decideInstances(
            own,
            { changedAtMs, shrunk: false, patience },
            {
              nowMs: 10_000,
              ...drawn,
              tooLongForMs: drawn.oldestWaitMs < given.scaleUpAfterMs ? 0 : drawn.tooLongForMs,
            },
          )
          const { instances } = drawn
          const by = decision.instances - instances
          expect(Math.abs(by)).toBeLessThanOrEqual(1)
          if (instances < own.minInstances && changedAtMs <= 10_000) expect(by).toBe(1)
          if (instances > own.maxInstances) expect(by).toBe(-1)
          if (by === 1 && instances >= own.minInstances)
            expect(drawn.tooLongForMs).toBeGreaterThanOrEqual(3 * own.scaleUpAfterMs)
          if (by === -1 && instances <= own.maxInstances)
            expect(Math.max(drawn.idleMs, drawn.measuredMs)).toBeGreaterThanOrEqual(own.scaleDownAfterMs)
          if (by === 0) expect(Math.min(decision.upAtMs, decision.downAtMs)).toBeGreaterThan(10_000)
        }),
      )
    })
  })
})
