// Alone: it measures the memory of its process.
import { describe, expect, it, vi } from 'vitest'
import type { MemoryOptions } from '../../src/index.ts'
import { fate, House, Served, settled } from './serving.ts'

async function served(memory: MemoryOptions) {
  const house = await House.open(1)
  const { threads } = house.places[0]!
  const model = await Served.on(house, 'a', house.places, { memory })
  const run = async (value: number) => {
    const sent = model.send(value)
    await settled()
    threads.current.finish()
    expect(await fate(sent)).toBe(2 * value)
    await settled()
  }
  const shrinks = () => threads.current.asked.filter((each) => each.startsWith('shrink')).length
  return { house, model, threads, run, shrinks }
}

describe('the arena of a session', () => {
  it('gives nothing back by itself, and takes no timer for that', async () => {
    const { house, run, shrinks } = await served({})
    await run(1)
    expect(house.clock.timers).toBe(0)
    expect(shrinks()).toBe(0)
  })

  it("gives back after each run with shrink: 'run'", async () => {
    const { run, shrinks } = await served({ shrink: 'run' })
    for (const count of [1, 2, 3]) {
      await run(count)
      expect(shrinks()).toBe(count)
    }
  })

  it("gives back two seconds after the last run with shrink: 'idle', once", async () => {
    const { house, run, shrinks } = await served({ shrink: 'idle' })
    await run(1)
    house.clock.advanceBy(1500)
    await run(2)
    house.clock.advanceBy(1999)
    expect(shrinks()).toBe(0)
    house.clock.advanceBy(1)
    expect(shrinks()).toBe(1)
    expect(house.clock.timers).toBe(0)
    house.clock.advanceBy(60_000)
    expect(shrinks()).toBe(1)
    await run(3)
    house.clock.advanceBy(2000)
    expect(shrinks()).toBe(2)
  })

  it('gives back after a run that leaves more than limitBytes', async () => {
    const { threads, run, shrinks } = await served({ limitBytes: 2_000_000 })
    threads.arenaBytes = 2_000_000
    await run(1)
    expect(shrinks()).toBe(0)
    threads.arenaBytes = 2_000_001
    await run(2)
    expect(shrinks()).toBe(1)
  })

  it('is not asked in vain for its first piece', async () => {
    const { threads, run, shrinks } = await served({ limitBytes: 0 })
    threads.arenaBytes = 2 ** 20
    await run(1)
    expect(shrinks()).toBe(0)
    threads.arenaBytes++
    await run(2)
    expect(shrinks()).toBe(1)
  })

  it('is asked for nothing, and warned of nothing, once its thread has died', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { house, threads, run } = await served({ shrink: 'idle' })
    await run(1)
    const [dead] = threads.executors
    house.clock.advanceBy(1999)
    threads.current.die()
    await settled()
    house.clock.advanceBy(1)
    await settled()
    expect(
      [dead!, threads.current].flatMap(({ asked }) => asked).filter((each) => each.startsWith('shrink')),
    ).toEqual([])
    expect(warn).not.toHaveBeenCalled()
    warn.mockRestore()
  })

  it('is asked for nothing any more when its model is closed', async () => {
    const { house, model, run } = await served({ shrink: 'idle' })
    await run(1)
    await model.sessions[0]!.close()
    expect(house.clock.timers).toBe(0)
  })
})
