// Alone: long histories go slowly in a process with much behind it.
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { History, type Plan, type Step } from './history.ts'
import { repetitions } from '../support/full.ts'

/** Histories per kind. */
const histories = Number(process.env.HISTORIES ?? repetitions(700, 50))

const both = fc.nat(1)
const arrive: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('arrive' as const),
  model: fc.constantFrom(0, 0, 0, 1),
  rows: fc.constantFrom(1, 1, 1, 2, 3, 4, 10),
  length: fc.constantFrom(4, 4, 4, 4, 5),
  priority: fc.constantFrom(0, 0, 0, 1),
  timeoutMs: fc.constantFrom(0, 0, 0, 2, 7),
  deadlineMs: fc.constantFrom(0, 0, 0, 0, 6, 40),
  maxRunMs: fc.constantFrom(0, 0, 0, 3),
})
const abort: fc.Arbitrary<Step> = fc.record({ do: fc.constant('abort' as const), request: fc.nat(40) })
const advance: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('advance' as const),
  ms: fc.constantFrom(0, 1, 3, 150, 1000),
})
const claim: fc.Arbitrary<Step> = fc.record({ do: fc.constant('claim' as const), worker: both })
const finish: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('finish' as const),
  worker: both,
  fails: fc.constantFrom(false, false, false, true),
})
const die: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('die' as const),
  worker: both,
  knownFirst: fc.boolean(),
})
const refuse: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('refuse' as const),
  worker: both,
  what: fc.constantFrom('start' as const, 'open' as const),
})
const revoke: fc.Arbitrary<Step> = fc.record({ do: fc.constant('take back' as const), model: both })
const detach: fc.Arbitrary<Step> = fc.record({ do: fc.constant('detach' as const), request: fc.nat(40) })
const unload: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('unload' as const),
  model: both,
  destroys: fc.boolean(),
})
const scale: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('scale' as const),
  model: both,
  count: fc.constantFrom(1, 2, 3, 4),
})
const endLeft: fc.Arbitrary<Step> = fc.record({ do: fc.constant('end left' as const), worker: both })

const plan: fc.Arbitrary<Plan> = fc.record({
  instances: fc.constantFrom(1 as const, 2 as const),
  maxBatchSize: fc.constantFrom(1, 2, 4),
  maxQueueSize: fc.constantFrom(0, 0, 5),
  maxQueueDelayMs: fc.constantFrom(0, 0, 3),
  delays: fc.boolean(),
  rerunAfterCrash: fc.boolean(),
  preserveOrdering: fc.constantFrom(false, false, true),
  maxRunMs: fc.constantFrom(0, 0, 5),
  canStop: fc.boolean(),
})

const kinds: [name: string, step: fc.Arbitrary<Step>][] = [
  [
    'that arrive, leave and are served',
    fc.oneof(
      { weight: 6, arbitrary: arrive },
      { weight: 4, arbitrary: finish },
      claim,
      { weight: 2, arbitrary: abort },
      advance,
      revoke,
    ),
  ],
  [
    'whose workers die',
    fc.oneof(
      { weight: 6, arbitrary: arrive },
      { weight: 3, arbitrary: finish },
      claim,
      { weight: 2, arbitrary: die },
      abort,
      advance,
      refuse,
    ),
  ],
  [
    'whose data is taken away and whose models are unloaded',
    fc.oneof(
      { weight: 8, arbitrary: arrive },
      { weight: 4, arbitrary: finish },
      claim,
      die,
      { weight: 2, arbitrary: detach },
      advance,
      revoke,
      unload,
    ),
  ],
  [
    'whose runs are stopped, or left to themselves',
    fc.oneof(
      { weight: 8, arbitrary: arrive },
      { weight: 3, arbitrary: finish },
      { weight: 3, arbitrary: claim },
      { weight: 5, arbitrary: advance },
      abort,
      die,
      endLeft,
      unload,
    ),
  ],
  [
    'while instances come and go',
    fc.oneof(
      { weight: 8, arbitrary: arrive },
      { weight: 4, arbitrary: finish },
      { weight: 4, arbitrary: scale },
      claim,
      die,
      refuse,
      abort,
      { weight: 2, arbitrary: advance },
      unload,
    ),
  ],
]

describe('two models on two workers settle every request once, in order and within limits, and nothing is left', () => {
  it.each(kinds)('with requests %s', async (_name, step) => {
    const property = fc.asyncProperty(
      plan,
      fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }),
      async (drawn, steps) => {
        const history = await History.begin(drawn)
        for (const each of steps) await history.perform(each)
        await history.end()
      },
    )
    await fc.assert(property, { numRuns: histories })
  })
})
