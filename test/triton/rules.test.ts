import { describe, expect, it } from 'vitest'
import { Replay } from './replay.ts'
import { rules } from './rules.ts'

describe("the rules of Triton's dynamic batcher, on the fake clock", () => {
  for (const rule of rules) {
    it(`${rule.section}: ${rule.rule}`, () => {
      expect(new Replay(rule).run()).toEqual({
        batches: rule.batches,
        waits: rule.waits,
        rejected: rule.rejected ?? {},
      })
    })
  }
})
