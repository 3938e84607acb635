import { describe, expect, it } from 'vitest'
import { InferenceError, type InferOptions, type ModelOptions } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { mulberry32 } from '../models/random.ts'
import { full, repetitions } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'
import { accumulatorSequence } from './accumulators.ts'
import { randomSteps } from './random-steps.ts'

const sequences = repetitions(300, 30)
const stepsEach = 60

/** Random calls of one sequence, some of them before those ahead were answered; each answer is what the sequence has to give. */
async function live(
  id: number,
  random: () => number,
  infer: (x: number, options: InferOptions) => Promise<number>,
  account: Record<string, number>,
): Promise<void> {
  let sum = 0
  let begun = false
  let pending: Promise<void> = Promise.resolve()
  for (let step = 0; step < stepsEach; step++) {
    const x = 1 + Math.floor(random() * 7)
    const start = !begun || random() < 0.02
    const end = random() < 0.05
    const aborts = new AbortController()
    const options: InferOptions = {
      sequenceId: id,
      sequenceStart: start,
      sequenceEnd: end,
      signal: aborts.signal,
      ...(random() < 0.05 && { timeoutMs: 1 + random() * 5 }),
    }
    const answer = infer(x, options)
    if (random() < 0.05) setImmediate(() => aborts.abort())
    begun = !end
    const before = pending
    pending = answer.then(
      async (got) => {
        await before // what was called before has been looked at
        if (start) sum = 0
        sum += x
        if (got !== sum) throw new Error(`sequence ${id}, step ${step}: ${got} for ${sum}`)
        account['answered'] = (account['answered'] ?? 0) + 1
      },
      async (error: unknown) => {
        await before
        if (start) sum = 0
        const code = error instanceof InferenceError ? error.code : 'aborted'
        if (code !== 'ERR_TIMEOUT' && code !== 'aborted') throw error
        account[code] = (account[code] ?? 0) + 1
      },
    )
    if (random() < 0.6) await pending
  }
  await pending
}

describe('many sequences at random on an engine', () => {
  it.each<[string, ModelOptions['sequence']]>([
    ['as they come', { oldest: {} }],
    ['with slots of their own', { direct: {} }],
  ])('keep their order and their states to themselves: %s', { timeout: 60_000 }, async (_, strategy) => {
    const model = await load(ownEngine(), accumulator(), {
      maxBatchSize: 256,
      checkRows: false,
      instanceGroup: [{ count: 2 }],
      sequence: { ...accumulatorSequence, maxSequenceIdleMs: 60_000, ...strategy },
    })
    const account: Record<string, number> = {}
    const infer = async (x: number, options: InferOptions) =>
      ((await model.infer({ x: Float32Array.of(x) }, options))['sum']!.data as Float32Array)[0]!
    await Promise.all(
      Array.from({ length: sequences }, (_unused, id) => live(id + 1, mulberry32(id), infer, account)),
    )
    expect(account['answered']! + (account['aborted'] ?? 0) + (account['ERR_TIMEOUT'] ?? 0)).toBe(
      sequences * stepsEach,
    )
    const { inferenceStats, executionCount } = model.stats()
    expect(inferenceStats.success.count).toBeGreaterThanOrEqual(account['answered']!) // an abort may come when all is done
    expect(executionCount).toBeLessThan(inferenceStats.success.count)
  })
})

describe('sequences property', () => {
  /** Steps of each. Together a million. */
  const strategies = [
    ['as they come', 500_000, { oldest: {} }],
    [
      'of a limited number of candidates',
      250_000,
      { oldest: { maxCandidateSequences: 700, preferredBatchSize: [16, 64], maxQueueDelayMs: 4 } },
    ],
    ['with slots of their own', 250_000, { direct: { maxQueueDelayMs: 3, minimumSlotUtilization: 0.25 } }],
  ] as const

  const sequences = repetitions(10_000, 1000)

  describe(`${sequences} sequences, with time-outs, aborts, ends, failures and deaths at random`, () => {
    it.each(strategies)(
      'keep their order and their states to themselves: %s',
      { timeout: 600_000 },
      async (_, steps, sequence) => {
        const count = Number(process.env['ZEROHOP_STEPS'] ?? repetitions(steps, 12_500))
        const account = await randomSteps(4711, count, sequences, sequence as never)
        expect(account.answered).toBeGreaterThan(count / 20)
        expect(
          Math.min(account.aborted, account.timedOut, account.ended, account.deaths, account.joined),
        ).toBeGreaterThan(full ? 10 : 0)
      },
    )
  })
})
