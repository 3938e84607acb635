import { describe, expect, it } from 'vitest'
import { LargeSlots } from '../../src/run/model-instance.ts'
import type { StagingSlot } from '../../src/run/staging-slot.ts'
import { FakeClock } from '../fake-clock.ts'

/** A slot with as much of one as is looked at; a batch of it takes no time. */
class Slot {
  large = true
  neededLarge = true
  batch: object | null = null
}

function setUp() {
  const clock = new FakeClock()
  const given: Slot[] = []
  const slots = new LargeSlots(clock, (slot) => {
    given.push(slot as unknown as Slot)
    ;(slot as unknown as Slot).large = false
  })
  const returned = (slot: Slot, neededLarge: boolean) => {
    slot.neededLarge = neededLarge
    slots.returned(slot as unknown as StagingSlot)
  }
  return { clock, given, slots, returned }
}

describe('large slots', () => {
  it('are given back two seconds after the last batch that needed them, and no timer is left', () => {
    const { clock, given, returned } = setUp()
    const slot = new Slot()
    returned(slot, true)
    clock.advanceBy(1999)
    expect(given).toEqual([])
    clock.advanceBy(1)
    expect(given).toEqual([slot])
    expect(clock.timers).toBe(0)
  })

  it('are given back although small batches keep coming', () => {
    const { clock, given, returned } = setUp()
    const slot = new Slot()
    returned(slot, true)
    for (let count = 0; count < 25; count++) {
      clock.advanceBy(100)
      if (slot.large) returned(slot, false)
    }
    expect(given).toEqual([slot])
  })

  it('are kept while they are in steady use, with one timer for all', () => {
    const { clock, given, returned } = setUp()
    const slots = [new Slot(), new Slot()]
    for (let count = 0; count < 100; count++) {
      for (const slot of slots) returned(slot, true)
      clock.advanceBy(500)
      expect(clock.timers).toBe(1)
    }
    expect(given).toEqual([])
  })

  it('are not taken from a batch', () => {
    const { clock, given, returned } = setUp()
    const slot = new Slot()
    returned(slot, true)
    slot.batch = {}
    clock.advanceBy(10_000)
    expect(given).toEqual([])
    slot.batch = null
    clock.advanceBy(2000)
    expect(given).toEqual([slot])
  })

  it('that are small cost no timer', () => {
    const { clock, returned } = setUp()
    const slot = new Slot()
    slot.large = false
    returned(slot, true)
    expect(clock.timers).toBe(0)
  })

  it('are looked at no more once the instance is closed', () => {
    const { clock, given, slots, returned } = setUp()
    returned(new Slot(), true)
    slots.close()
    expect(clock.timers).toBe(0)
    clock.advanceBy(10_000)
    expect(given).toEqual([])
  })
})
