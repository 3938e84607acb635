import { describe, expect, it } from 'vitest'
import { House, settled } from '../workers/serving.ts'
import { accumulatorSequence } from './accumulators.ts'
import { play, type Stage } from './play.ts'
import { optionsOf, rules } from './rules.ts'
import { ServedSequences } from './served-sequences.ts'

const tickMs = 10

describe("the rules of Triton's sequence batcher, on a clock that stands still", () => {
  it.each(rules.map((rule) => [rule.rule, rule] as const))('%s', async (_, rule) => {
    const house = await House.open(rule.instances ?? 1)
    const model = await ServedSequences.on(house, optionsOf(rule, tickMs, accumulatorSequence))
    const beginMs = house.clock.nowMs()
    const stage: Stage = {
      tickMs,
      infer: (x, options) => model.infer(x, options),
      reach: async (tick) => {
        while (house.clock.nowMs() < beginMs + tick * tickMs) {
          await settled()
          for (const { threads } of house.places) threads.current.finish() // a run takes a millisecond
          await settled()
          house.clock.advanceBy(1)
        }
        await settled()
      },
    }
    expect(await play(rule, stage)).toEqual({
      batches: rule.batches,
      rejected: rule.rejected ?? {},
      wrong: [],
    })
    model.sequences.drain()
    await settled()
    expect(model.scheduler.waiting).toBe(0)
    model.sequences.close()
    expect([model.sequences.size, house.keepAlive.holds]).toEqual([0, 0])
  })
})
