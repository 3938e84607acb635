import { describe, expect, it } from 'vitest'
import { seen } from '../latency/seen.ts'
import { setup, type Named } from './recorder.ts'

/** A queue in which requests wait that are not ready yet. */
function unready(
  options: Parameters<typeof setup>[0] = {},
  levels: Parameters<typeof setup>[1] = {},
  runTimes: Parameters<typeof setup>[2] = null,
) {
  const all = setup(options, levels, runTimes)
  const hold = (...given: Parameters<typeof all.make>): Named => {
    const entry = all.make(...given)
    entry.unready = true
    all.batcher.hold(entry, all.clock.nowMs())
    return entry
  }
  const ready = (entry: Named) => all.batcher.ready(entry, all.clock.nowMs())
  return { ...all, hold, ready }
}

describe('a request that is not ready', () => {
  it('counts as waiting, and keeps none behind it from being sent', () => {
    const { batcher, levels, hold, ready, add, take } = unready()
    const first = hold('first', { rows: 2 })
    add('second')
    const level = levels.of(undefined)
    expect([batcher.count, level.waiting, levels.rowsAhead(level), levels.rowsAhead(level, true)]).toEqual([
      2, 2, 1, 3,
    ])
    expect(take()).toEqual(['second'])
    ready(first)
    expect([batcher.count, levels.rowsAhead(level), levels.rowsAhead(level, true)]).toEqual([1, 2, 2])
    expect([take(), level.waiting]).toEqual([['first'], 0])
  })

  it('goes before all that came after it once it is', () => {
    const { hold, ready, add, take } = unready({ maxBatchSize: 16 })
    add('a')
    const b = hold('b')
    add('c')
    const d = hold('d')
    add('e')
    ready(d)
    ready(b)
    expect(take()).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  it('finds its place among many of which some have left', () => {
    const { batcher, hold, ready, add, take } = unready({ maxBatchSize: 100 })
    const names = Array.from({ length: 60 }, (_, at) => String(at))
    const held: Named[] = []
    const added: Named[] = []
    for (const [at, name] of names.entries())
      if (at % 3 === 1) held.push(hold(name))
      else added.push(add(name))
    for (const at of [0, 5, 11, 39]) batcher.cancel(added[at]!, 'cancelled')
    for (const entry of held.toReversed()) ready(entry)
    const gone = [0, 5, 11, 39].map((at) => added[at]!.name)
    // In the order of the calls: those added came after those held before them in the loop.
    expect(take()).toEqual(names.filter((name) => !gone.includes(name)))
  })

  it('goes behind what is left of a batch that came back', () => {
    const { batcher, hold, ready, add, take } = unready({ maxBatchSize: 2 })
    const [a, c] = [add('a'), add('c')]
    const b = hold('b')
    expect(take()).toEqual(['a', 'c'])
    batcher.putBack([a, c])
    ready(b)
    expect([take(), take()]).toEqual([['a', 'c'], ['b']])
  })

  it('has its delay counted from when it is, and its timeout from when it came', () => {
    const { clock, exits, hold, ready, take } = unready({ maxQueueDelayMs: 10 })
    const [one, other] = [hold('one'), hold('other', { timeoutMs: 30 })]
    clock.advanceBy(25)
    ready(one)
    ready(other)
    expect(take()).toBeUndefined()
    clock.advanceBy(4)
    expect(take()).toBeUndefined()
    clock.advanceBy(1)
    expect(exits).toEqual([['other', 'timeout', 30]])
    clock.advanceBy(5)
    expect(take()).toEqual(['one'])
  })

  it('is dropped instead of being made ready when its run would end too late', () => {
    const { batcher, clock, exits, hold } = unready({}, {}, seen({ 1: 20 }))
    const entry = hold('late', { deadlineMs: 30 })
    expect(batcher.expires(entry)).toBe(false)
    clock.advanceBy(11)
    expect([batcher.expires(entry), exits]).toEqual([true, [['late', 'deadline', 11]]])
  })

  it('is delayed behind the others of its level where that is what a timeout does', () => {
    const { clock, hold, ready, add, take } = unready(
      {},
      {
        defaultPolicy: {
          timeoutAction: 'DELAY',
          defaultTimeoutMs: 0,
          allowTimeoutOverride: true,
          maxQueueSize: 0,
        },
      },
    )
    const entry = hold('delayed', { timeoutMs: 5 })
    clock.advanceBy(6)
    add('later')
    ready(entry)
    expect(take()).toEqual(['later', 'delayed'])
  })
})
