import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import {
  afterChange,
  autoscaleStart,
  decideInstances,
  type AutoscaleMemory,
} from '../../src/models/scaling/autoscale-policy.ts'

const limits = { minInstances: 1, maxInstances: 4, scaleUpAfterMs: 100, scaleDownAfterMs: 1000 }
const memory = (changes: Partial<AutoscaleMemory> = {}): AutoscaleMemory => ({
  ...autoscaleStart(0),
  ...changes,
})
const moment = (changes: object = {}) => ({
  nowMs: 10_000,
  instances: 2,
  waitedMs: 0,
  waitingMs: 0,
  idleMs: 0,
  busyInstances: 2,
  measuredMs: 0,
  ...changes,
})

describe('a group of instances', () => {
  it('grows by one when requests go on waiting for too long, and not before', () => {
    expect(decideInstances(limits, memory(), moment({ waitedMs: 99 }))).toEqual({
      instances: 2,
      upAtMs: 10_001,
      downAtMs: 11_000,
    })
    expect(decideInstances(limits, memory(), moment({ waitedMs: 100 }))).toMatchObject({
      instances: 2,
      upAtMs: 10_025,
    })
    expect(decideInstances(limits, memory(), moment({ waitedMs: 150, waitingMs: 299 }))).toMatchObject({
      instances: 2,
      upAtMs: 10_025,
    })
    expect(decideInstances(limits, memory(), moment({ waitedMs: 150, waitingMs: 300 })).instances).toBe(3)
  })

  it('grows for nothing while no change is to be made', () => {
    expect(
      decideInstances(limits, memory({ changedAtMs: 10_050 }), moment({ waitedMs: 5000, waitingMs: 5000 })),
    ).toMatchObject({ instances: 2, upAtMs: 10_050 })
    expect(decideInstances(limits, memory({ changedAtMs: 10_050 }), moment({ instances: 0 }))).toMatchObject({
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
    expect(decideInstances(limits, memory(), moment({ busyInstances: 0.5, measuredMs: 999 }))).toMatchObject({
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
      decideInstances(limits, memory(), moment({ instances: 4, waitedMs: 5000, waitingMs: 5000 })),
    ).toMatchObject({ instances: 4, upAtMs: Infinity })
    expect(decideInstances(limits, memory(), moment({ instances: 1, idleMs: 5000 }))).toMatchObject({
      instances: 1,
      downAtMs: Infinity,
    })
    expect(decideInstances(limits, memory({ changedAtMs: 10_000 }), moment({ instances: 0 })).instances).toBe(
      1,
    )
    expect(decideInstances(limits, memory({ changedAtMs: 10_000 }), moment({ instances: 6 })).instances).toBe(
      5,
    )
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
    expect(decideInstances(limits, known, moment({ nowMs: nowMs + 20_000, idleMs: 15_999 })).instances).toBe(
      2,
    )
    expect(decideInstances(limits, known, moment({ nowMs: nowMs + 20_000, idleMs: 16_000 })).instances).toBe(
      1,
    )
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
      waitedMs: fc.nat(1000),
      waitingMs: fc.nat(2000),
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
          { nowMs: 10_000, ...drawn, waitingMs: drawn.waitedMs < given.scaleUpAfterMs ? 0 : drawn.waitingMs },
        )
        const { instances } = drawn
        const by = decision.instances - instances
        expect(Math.abs(by)).toBeLessThanOrEqual(1)
        if (instances < own.minInstances && changedAtMs <= 10_000) expect(by).toBe(1)
        if (instances > own.maxInstances) expect(by).toBe(-1)
        if (by === 1 && instances >= own.minInstances)
          expect(drawn.waitingMs).toBeGreaterThanOrEqual(3 * own.scaleUpAfterMs)
        if (by === -1 && instances <= own.maxInstances)
          expect(Math.max(drawn.idleMs, drawn.measuredMs)).toBeGreaterThanOrEqual(own.scaleDownAfterMs)
        if (by === 0) expect(Math.min(decision.upAtMs, decision.downAtMs)).toBeGreaterThan(10_000)
      }),
    )
  })
})
