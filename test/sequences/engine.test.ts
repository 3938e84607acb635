import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Outputs, ReportedOutputs } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { full } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'
import { House, settled } from '../workers/serving.ts'
import { accumulatorSequence } from './accumulators.ts'
import { play, type Stage } from './play.ts'
import { optionsOf, rules } from './rules.ts'
import { ServedSequences } from './served-sequences.ts'

/** Long beside what a busy machine holds a timer up by: only the order of events matters here. */
const tickMs = 40

describe("the rules of Triton's sequence batcher, on an engine", () => {
  // All are played on a clock that stands still below; these take real time.
  const played = rules.filter((_, index) => full || index % 3 === 0)
  it.each(played.map((rule) => [rule.rule, rule] as const))(
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

it('a request that is withdrawn while its answer waits for those before it has left no state', async () => {
  const house = await House.open(2)
  const model = await ServedSequences.on(house, {
    maxBatchSize: 4,
    sequence: { ...accumulatorSequence, maxSequenceIdleMs: 100_000, oldest: { preserveOrdering: true } },
  })
  const sum = async (answer: ReturnType<ServedSequences['infer']>) => (await answer).outputs['sum']!.data[0]
  const aborts = new AbortController()
  const other = sum(model.infer(1, { sequenceId: 1, sequenceStart: true }))
  await settled()
  const withdrawn = outcomeOf(model.infer(10, { sequenceId: 2, sequenceStart: true, signal: aborts.signal }))
  const next = sum(model.infer(20, { sequenceId: 2 }))
  await settled()
  const [first, second] = house.places.map(({ threads }) => threads.current)
  expect(second!.finish()).toBe(true)
  await settled()
  aborts.abort('withdrawn')
  expect(await withdrawn).toBe('withdrawn')
  await settled()
  expect([first!.finish(), second!.finish()]).toEqual([true, true])
  expect([await other, await next]).toEqual([1, 20])
})

describe('rules', () => {
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
})
