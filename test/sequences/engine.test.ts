import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Outputs, ReportedOutputs } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { load, ownEngine } from '../support/open.ts'
import { accumulatorSequence } from './accumulators.ts'
import { play, type Stage } from './play.ts'
import { optionsOf, rules } from './rules.ts'

/** Long beside what a busy machine holds a timer up by: only the order of events matters here. */
const tickMs = 40

describe("the rules of Triton's sequence batcher, on an engine", () => {
  it.each(rules.map((rule) => [rule.rule, rule] as const))(
    '%s',
    { retry: 2, timeout: 20_000 },
    async (_, rule) => {
      const model = await load(ownEngine(), accumulator(), {
        checkRows: false,
        ...optionsOf(rule, tickMs, accumulatorSequence),
      })
      const beginMs = performance.now()
      const stage: Stage = {
        tickMs,
        infer: (x, options) =>
          model.infer({ x: Float32Array.of(x) }, { ...options, report: true }) as Promise<
            ReportedOutputs<Outputs>
          >,
        reach: async (tick) => {
          const waitMs = beginMs + tick * tickMs - performance.now()
          if (waitMs > 0) await sleep(waitMs)
        },
      }
      expect(await play(rule, stage)).toEqual({
        batches: rule.batches,
        rejected: rule.rejected ?? {},
        wrong: [],
      })
      const { inferenceCount, inferenceStats, executionCount, batchStats } = model.stats()
      const run = rule.batches.flatMap((batch) => batch.split(' ')).filter((name) => name !== '-')
      expect([inferenceCount, inferenceStats.success.count, executionCount]).toEqual([
        run.length,
        run.length,
        rule.batches.length,
      ])
      expect(batchStats.reduce((sum, { computeInfer }) => sum + computeInfer.count, 0)).toBe(
        rule.batches.length,
      )
    },
  )
})
