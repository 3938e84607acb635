import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BatchLimits, BatchReason, LevelOptions, LevelPolicy } from '../../src/options/batching.ts'
import { decide, type Moment, type QueuedRows } from '../../src/schedule/request-queue.ts'
import { repetitions } from '../support/full.ts'
import { noPolicy } from './recorder.ts'
import { type Scenario, Simulation, type Step } from './simulation.ts'

/** A queue of requests that all arrived at `enqueuedAtMs`. */
const queued = (rows: readonly number[], enqueuedAtMs = 0): QueuedRows[] =>
  rows.map((rows) => ({ rows, enqueuedAtMs, deadlineAtMs: null }))

interface Case {
  readonly name: string
  readonly rows: readonly number[]
  readonly sends: number
  readonly max?: number
  readonly preferred?: readonly number[]
  readonly delayMs?: number
  readonly ageMs?: number
  readonly idle?: boolean
  readonly join?: boolean
  readonly draining?: boolean
  readonly reason?: BatchReason
}

/** An idle instance, asked at `nowMs`. */
const moment = (nowMs: number, more: Partial<Moment> = {}): Moment => ({
  nowMs,
  idle: true,
  startsInMs: 0,
  draining: false,
  runTimes: null,
  ...more,
})

const ones = (count: number): number[] => Array.from({ length: count }, () => 1)

/** Requests that leave, for a queue whose oldest request is `ageMs` old; an idle instance unless said otherwise. */
function check(cases: readonly Case[]): void {
  for (const each of cases) {
    it(each.name, () => {
      const {
        rows,
        sends,
        max = 8,
        preferred = [],
        delayMs = 0,
        ageMs = 0,
        idle = true,
        join = true,
        draining = false,
        reason,
      } = each
      const limits: BatchLimits = {
        maxBatchSize: max,
        preferredBatchSizes: preferred,
        maxQueueDelayMs: delayMs,
        joinRequests: join,
      }
      const decision = decide(queued(rows, 1000), limits, moment(1000 + ageMs, { idle, draining }))
      expect(decision.requests).toBe(sends)
      if (reason !== undefined) expect(decision.reason).toBe(reason)
    })
  }
}

describe('decide without a delay', () => {
  check([
    { name: 'sends nothing from an empty queue', rows: [], sends: 0 },
    { name: 'sends a single request at once', rows: [1], sends: 1 },
    { name: 'sends everything that waits', rows: ones(5), sends: 5 },
    { name: 'sends no more than the maximum', rows: ones(20), sends: 8 },
    { name: 'counts rows, not requests', rows: [3, 3, 2, 1], sends: 3 },
    { name: 'stops before the request that would exceed the maximum', rows: [3, 3, 3], sends: 2 },
    { name: 'does not look past that request for one that fits', rows: [5, 4, 1], sends: 1 },
    { name: 'sends a request as large as the maximum alone', rows: [8, 1], sends: 1 },
    { name: 'sends a request without rows', rows: [0], sends: 1 },
    { name: 'sends single requests where the maximum is 1', rows: ones(3), max: 1, sends: 1 },
  ])
})

describe('decide with preferred sizes', () => {
  check([
    { name: 'sends the largest preferred prefix', rows: ones(7), preferred: [2, 4, 6], sends: 6 },
    {
      name: 'sends a smaller preferred prefix below the largest',
      rows: ones(3),
      preferred: [2, 4],
      sends: 2,
    },
    { name: 'sends no preferred size plus one', rows: ones(5), preferred: [4], sends: 4 },
    { name: 'sends the largest preferred size, not the maximum', rows: ones(20), preferred: [4], sends: 4 },
    { name: 'sends everything below the smallest', rows: ones(3), preferred: [4], sends: 3 },
    { name: 'reaches a preferred size with several rows each', rows: [2, 1, 3, 2], preferred: [6], sends: 3 },
    { name: 'passes over a size that no prefix has', rows: [3, 2, 1], preferred: [4, 6], sends: 3 },
    { name: 'keeps to a preferred prefix before the maximum', rows: [2, 5, 3], preferred: [2, 8], sends: 1 },
    { name: 'flushes the prefix before an overshooting request', rows: [3, 3], preferred: [4], sends: 1 },
    { name: 'flushes all of that prefix', rows: [1, 2, 2, 1], preferred: [4], sends: 2 },
    { name: 'sends an overshooting first request alone', rows: [5, 1], preferred: [4], sends: 1 },
    {
      name: 'prefers a reached size to what an overshoot flushes',
      rows: [2, 1, 4],
      preferred: [2, 4],
      sends: 1,
    },
  ])
})

describe('decide with a delay', () => {
  const delayMs = 10
  check([
    { name: 'waits for more', rows: ones(3), delayMs, ageMs: 9.75, sends: 0 },
    { name: 'sends everything when it ran out', rows: ones(3), delayMs, ageMs: 10, sends: 3 },
    { name: 'sends a full batch without waiting', rows: ones(9), delayMs, sends: 8 },
    { name: 'sends a batch that cannot grow without waiting', rows: [5, 4], delayMs, sends: 1 },
    { name: 'sends a preferred size without waiting', rows: ones(3), preferred: [2, 4], delayMs, sends: 2 },
    { name: 'waits below the smallest preferred size', rows: ones(3), preferred: [4], delayMs, sends: 0 },
    { name: 'flushes before an overshoot without waiting', rows: [3, 3], preferred: [4], delayMs, sends: 1 },
    {
      name: 'does not wait with the largest preferred size',
      rows: [4],
      preferred: [2, 4],
      delayMs,
      sends: 1,
    },
    { name: 'does not wait with a single larger request', rows: [5], preferred: [2, 4], delayMs, sends: 1 },
    {
      name: 'ignores preferred sizes when it ran out',
      rows: ones(7),
      preferred: [4],
      delayMs,
      ageMs: 10,
      sends: 7,
    },
    {
      name: 'keeps to the preferred size when more waits than fits',
      rows: ones(11),
      preferred: [4],
      delayMs,
      ageMs: 30,
      sends: 4,
    },
    { name: 'stops at the maximum where that is preferred', rows: ones(11), delayMs, ageMs: 30, sends: 8 },
    {
      name: 'sends an overshoot too when it ran out',
      rows: [3, 3],
      preferred: [4],
      delayMs,
      ageMs: 10,
      sends: 2,
    },
    {
      name: 'flushes before an overshoot when more waits than fits',
      rows: [3, 3, 3],
      preferred: [4],
      delayMs,
      ageMs: 10,
      sends: 1,
    },
  ])

  it('is over at the time that was said, whatever the rounding of fractions', () => {
    const time = fc.double({ min: 1e-3, max: 1e9, noNaN: true })
    const property = fc.property(time, time, (enqueuedAtMs, maxQueueDelayMs) => {
      const limits = { maxBatchSize: 8, preferredBatchSizes: [], maxQueueDelayMs, joinRequests: true }
      const front = queued([1], enqueuedAtMs)
      const { requests, closeAtMs } = decide(front, limits, moment(enqueuedAtMs))
      fc.pre(requests === 0)
      expect(decide(front, limits, moment(closeAtMs)).requests).toBe(1)
    })
    fc.assert(property, { numRuns: repetitions(2000, 500) })
  })
})

describe('decide for a busy instance', () => {
  const idle = false
  check([
    { name: 'sends no partial batch', rows: ones(7), idle, sends: 0 },
    { name: 'sends a full batch', rows: ones(9), idle, sends: 8 },
    { name: 'sends a batch that cannot grow', rows: [5, 4], idle, sends: 1 },
    { name: 'sends the largest preferred size', rows: ones(5), preferred: [2, 4], idle, sends: 4 },
    { name: 'sends no smaller preferred size', rows: ones(3), preferred: [2, 4], idle, sends: 0 },
    { name: 'flushes before an overshooting request', rows: [3, 3], preferred: [4], idle, sends: 1 },
    { name: 'sends no partial batch after the delay', rows: ones(3), delayMs: 5, ageMs: 9, idle, sends: 0 },
    {
      name: 'sends the largest preferred size after it',
      rows: ones(6),
      preferred: [4],
      delayMs: 5,
      ageMs: 9,
      idle,
      sends: 4,
    },
  ])
})

describe('decide when requests do not join', () => {
  const join = false
  check([
    { name: 'sends one request of many', rows: ones(5), join, sends: 1 },
    { name: 'sends it to a busy instance too', rows: [2, 3], join, idle: false, sends: 1 },
    { name: 'does not wait for the delay', rows: [1], join, delayMs: 10, sends: 1 },
    { name: 'does not ask for a maximum', rows: [1], max: 0, join, sends: 1 },
    { name: 'sends nothing from an empty queue', rows: [], join, sends: 0 },
  ])
})

describe('decide with a delay of the engine itself', () => {
  const limits: BatchLimits = {
    maxBatchSize: 8,
    preferredBatchSizes: [8],
    maxQueueDelayMs: 100,
    delayEndsAtMs: 1150,
    joinRequests: true,
  }
  const waiting = (enqueuedAtMs: number, timeoutAtMs: number | null = null) => ({
    rows: 1,
    enqueuedAtMs,
    deadlineAtMs: null,
    timeoutAtMs,
  })

  it('waits for it', () => {
    expect(decide([waiting(1000)], limits, moment(1000))).toMatchObject({ requests: 0, closeAtMs: 1100 })
    expect(decide([waiting(1000)], limits, moment(1100))).toMatchObject({ requests: 1, reason: 'delay' })
  })

  it('waits until it ends, and not at all from then on', () => {
    expect(decide([waiting(1080)], limits, moment(1080))).toMatchObject({ requests: 0, closeAtMs: 1150 })
    expect(decide([waiting(1160)], limits, moment(1160))).toMatchObject({ requests: 1, reason: 'delay' })
  })

  it('waits for no longer than half of the timeout of any request', () => {
    const front = [waiting(1000), waiting(1010, 1030)]
    expect(decide(front, limits, moment(1010))).toMatchObject({ requests: 0, closeAtMs: 1020 })
    expect(decide(front, limits, moment(1020))).toMatchObject({ requests: 2, reason: 'delay' })
    expect(decide(front, { ...limits, delayEndsAtMs: undefined }, moment(1010))).toMatchObject({
      closeAtMs: 1100,
    })
  })
})

/** Histories per kind. Five kinds make 100 000. */
const histories = repetitions(20_000, 1000)

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
    ...noPolicy,
    timeoutAction: priorityLevels > 0 && next(2) === 1 ? 'DELAY' : 'REJECT',
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
