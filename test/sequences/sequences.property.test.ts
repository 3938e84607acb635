import { describe, expect, it } from 'vitest'
import { randomSteps } from './random-steps.ts'
import { repetitions } from '../support/full.ts'

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
      const count = Number(process.env['ZEROHOP_STEPS'] ?? repetitions(steps, steps / 20))
      const account = await randomSteps(4711, count, sequences, sequence as never)
      expect(account.answered).toBeGreaterThan(count / 20)
      expect(
        Math.min(account.aborted, account.timedOut, account.ended, account.deaths, account.joined),
      ).toBeGreaterThan(10)
    },
  )
})
