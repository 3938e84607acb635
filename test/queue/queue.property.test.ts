import fc from 'fast-check'
import { describe, it } from 'vitest'
import type { LevelOptions, LevelPolicy } from '../../src/options/batching.ts'
import { Simulation, type Scenario, type Step } from './simulation.ts'
import { repetitions } from '../support/full.ts'

/** Histories per kind. Five kinds make 100 000. */
const histories = repetitions(20_000, 2000)

interface Kind {
  readonly name: string
  /** What happens, as often as it is named. */
  readonly events: readonly Step['do'][]
  readonly maxShapes: number
  readonly maxDelayMs: number
  readonly maxQueueSize: number
  /** Priority levels; with them, timeouts may delay. */
  readonly priorityLevels?: number
}

const kinds: readonly Kind[] = [
  {
    name: 'one shape and no delay',
    events: ['arrive', 'arrive', 'arrive', 'finish', 'finish', 'cancel', 'advance', 'close'],
    maxShapes: 1,
    maxDelayMs: 0,
    maxQueueSize: 0,
  },
  {
    name: 'several shapes and a delay',
    events: [
      'arrive',
      'arrive',
      'arrive',
      'arrive',
      'advance',
      'advance',
      'stall',
      'finish',
      'finish',
      'cancel',
    ],
    maxShapes: 4,
    maxDelayMs: 8,
    maxQueueSize: 0,
  },
  {
    name: 'a bounded queue, deadlines and cancels',
    events: [
      'arrive',
      'arrive',
      'arrive',
      'arrive',
      'cancel',
      'cancel',
      'advance',
      'stall',
      'finish',
      'close',
    ],
    maxShapes: 2,
    maxDelayMs: 4,
    maxQueueSize: 6,
  },
  {
    name: 'priorities, and timeouts that delay',
    events: [
      'arrive',
      'arrive',
      'arrive',
      'arrive',
      'advance',
      'stall',
      'finish',
      'finish',
      'crash',
      'cancel',
    ],
    maxShapes: 2,
    maxDelayMs: 4,
    maxQueueSize: 8,
    priorityLevels: 3,
  },
  {
    name: 'instances that fail, crash and give batches back',
    events: ['arrive', 'arrive', 'arrive', 'arrive', 'finish', 'finish', 'crash', 'advance', 'cancel'],
    maxShapes: 3,
    maxDelayMs: 4,
    maxQueueSize: 12,
  },
]

const outcomes = ['result', 'result', 'failed', 'indivisible'] as const

/** Takes small numbers off a large one, so that one drawn integer makes a step and shrinks to the plainest one. */
function digits(word: number): (base: number) => number {
  return (base) => {
    const digit = word % base
    word = Math.floor(word / base)
    return digit
  }
}

function scenarioOf(word: number, { maxDelayMs, maxQueueSize, priorityLevels = 0 }: Kind): Scenario {
  const next = digits(word)
  const maxBatchSize = 1 + next(8)
  const preferred = Array.from({ length: next(3) }, () => 1 + next(maxBatchSize))
  const limits = {
    maxBatchSize,
    preferredBatchSizes: [...new Set(preferred)].sort((a, b) => a - b),
    maxQueueDelayMs: next(2 * maxDelayMs + 1) / 2,
    joinRequests: next(8) < 7,
    holdUntilQueued: 0,
  }
  const policy = (): LevelPolicy => ({
    timeoutAction: priorityLevels > 0 && next(2) === 1 ? 'DELAY' : 'REJECT',
    defaultTimeoutMs: 0,
    allowTimeoutOverride: false,
    maxQueueSize: next(maxQueueSize + 1),
  })
  const levels: LevelOptions = {
    priorityLevels,
    defaultPriorityLevel: Math.min(2, priorityLevels),
    defaultPolicy: policy(),
    policies: new Map(priorityLevels > 0 ? [[1, policy()]] : []),
  }
  return { limits, levels, instances: 1 + next(3) }
}

function stepOf(word: number, { events, maxShapes }: Kind, { limits }: Scenario): Step {
  const next = digits(word)
  const event = events[next(events.length)]!
  switch (event) {
    case 'arrive': {
      const shape = ['', '3x4', '4x3', '1x1'][next(maxShapes)]!
      const timeoutMs = next(2) * (0.25 + next(40) / 4)
      const rows = next(2) === 0 ? 1 : next(limits.maxBatchSize + 1)
      return { do: event, rows, shape, timeoutMs, priority: next(5) }
    }
    case 'cancel':
      return { do: event, request: next(64) }
    case 'stall':
      return { do: event, ms: next(32) / 4, instance: next(3) }
    case 'advance':
      return { do: event, ms: next(32) / 4 }
    case 'finish':
      return { do: event, instance: next(3), as: outcomes[next(outcomes.length)]! }
    case 'crash':
      return { do: event, instance: next(3), giveBack: next(2) === 1 }
    case 'close':
      // Rarely, or hardly a history would live to its end.
      return next(8) === 7 ? { do: event } : { do: 'advance', ms: 0 }
  }
}

const word = fc.nat(2 ** 31 - 1)
const historyOf = (kind: Kind): fc.Arbitrary<{ scenario: Scenario; steps: Step[] }> =>
  fc.tuple(word, fc.array(word, { minLength: 1, maxLength: 40, size: 'max' })).map(([drawn, words]) => {
    const scenario = scenarioOf(drawn, kind)
    return { scenario, steps: words.map((each) => stepOf(each, kind, scenario)) }
  })

describe('a batcher settles every request once, in order, on time and within its limits', () => {
  for (const kind of kinds) {
    it(`with ${kind.name}`, () => {
      const property = fc.property(historyOf(kind), ({ scenario, steps }) =>
        new Simulation(scenario).run(steps),
      )
      fc.assert(property, { numRuns: histories })
    })
  }
})
