import { describe, expect, it } from 'vitest'
import type { Arrival, ArrivalRun } from '../../../../src/observe/arrival.ts'
import { recordedDelays } from '../../src/simulation/delays.ts'
import { inlineIn, instancesIn, recordedFigures, runsOf } from '../../src/simulation/recorded-run.ts'
import { simulate, type SimulationOptions } from '../../src/simulation/simulate.ts'
import { oneLevel } from '../../src/simulation/simulated-queue.ts'
import { followersOf } from '../../src/simulation/traffic.ts'

const flat = [
  { rows: 1, ms: 10 },
  { rows: 8, ms: 10 },
]
const one: Pick<SimulationOptions, 'serviceTimes' | 'instances' | 'maxBatchSize'> = {
  serviceTimes: flat,
  instances: 1,
  maxBatchSize: 1,
}
const recorded = (arrivals: readonly Arrival[], speed = 1) => ({ kind: 'recorded', arrivals, speed }) as const

/** Callers in a loop, each answered after 40 ms, as a machine of that time would have recorded them. */
function looping(callers: number, rounds: number): Arrival[] {
  return Array.from({ length: rounds }, (_, round) =>
    Array.from({ length: callers }, (): Arrival => ({
      atUs: round * 40_000,
      rows: 1,
      latencyUs: 40_000,
      ...(round === 0 ? {} : { afterAnswerUs: 0 }),
    })),
  ).flat()
}

describe('requests that were made on an answer', () => {
  it('are found by its time, each with one of its own', () => {
    const followers = followersOf(looping(2, 3))
    expect([...followers].map(([index, own]) => [index, own.map(({ arrival }) => arrival)])).toEqual([
      [0, [2]],
      [1, [3]],
      [2, [4]],
      [3, [5]],
    ])
    expect(
      followersOf([
        { atUs: 0, rows: 1, latencyUs: 10 },
        { atUs: 500, rows: 1, afterAnswerUs: 3 },
      ]).size,
    ).toBe(0)
  })

  it('come when it is given: slow answers do not make a queue, and fast ones are gone on from', () => {
    const arrivals = recorded(looping(4, 50))
    const slow = simulate({
      ...one,
      serviceTimes: [
        { rows: 1, ms: 100 },
        { rows: 4, ms: 100 },
      ],
      maxBatchSize: 4,
      arrivals,
    })
    expect(slow).toMatchObject({ answered: 200, batches: { 4: 50 }, p50Ms: 100, maxMs: 100 })
    const fast = simulate({ ...one, maxBatchSize: 4, arrivals })
    expect(fast).toMatchObject({ answered: 200, batches: { 4: 50 } })
    expect(fast.throughputPerSecond).toBeCloseTo(400, 6)
  })
})

describe('requests whose images were decoded', () => {
  const images = Array.from({ length: 4 }, (): Arrival => ({ atUs: 0, rows: 1, decodedUs: 50_000 }))

  it('wait for that in the queue, and keep none waiting that is ready', () => {
    const result = simulate({ ...one, arrivals: recorded([...images, { atUs: 10_000, rows: 1 }]) })
    expect(result).toMatchObject({ answered: 5, maxMs: 90 })
    expect(result.p50Ms).toBe(70)
  })

  it('count against its limit meanwhile', () => {
    const levels = { ...oneLevel, defaultPolicy: { ...oneLevel.defaultPolicy, maxQueueSize: 3 } }
    expect(
      simulate({
        ...one,
        levels,
        arrivals: recorded([...images, { atUs: 10_000, rows: 1 }, { atUs: 61_000, rows: 1 }]),
      }),
    ).toMatchObject({ answered: 4, refused: 2 })
  })
})

describe('callers in a loop, whose requests and answers the application thread works off', () => {
  const [callers, rounds, periodUs] = [8, 40, 64]
  /** Requests 1 us apart, a run of 20 us and all that surrounds it, answers 0.5 us apart, and again. */
  const arrivals = Array.from({ length: rounds }, (_, round) =>
    Array.from({ length: callers }, (_, caller): Arrival => {
      const fromUs = round * periodUs
      const run = {
        takenAtUs: fromUs + 17,
        rows: callers,
        requests: callers,
        instance: 'm_0',
        reason: 'full',
        gatherUs: 1,
        handOverUs: 10,
        runUs: 20,
        wakeUs: 5,
        scatterUs: 2,
      } as const
      return {
        atUs: fromUs + 8 + caller, rows: 1, latencyUs: 48 - caller / 2,
        ...(round === 0 ? {} : { afterAnswerUs: 16 + caller / 2 }), ...(caller === 0 ? { runs: [run] } : {}),
      } // prettier-ignore
    }),
  ).flat()

  it('are predicted as they were, each with its own latency', () => {
    const result = simulate({
      serviceTimes: { recorded: runsOf(arrivals) },
      instances: 1,
      maxBatchSize: callers,
      arrivals: recorded(arrivals),
    })
    expect(result).toMatchObject({ answered: callers * rounds, batches: { [callers]: rounds } })
    expect(result.p50Ms! * 1000).toBeCloseTo(46, 1)
    expect(result.maxMs! * 1000).toBeCloseTo(48, 1)
    const seconds = ((rounds - 1) * periodUs + 8 + 7 + 48 - 3.5) / 1e6
    expect(result.throughputPerSecond).toBeCloseTo((callers * rounds) / seconds, 0)
  })

  it('keep it from other things meanwhile', () => {
    const twice = runsOf(arrivals)
    const slower = twice.map((run) => ({ ...run, answerMs: run.answerMs! * 20 }))
    const simulated = (runs: typeof twice) =>
      simulate({
        serviceTimes: { recorded: runs },
        instances: 1,
        maxBatchSize: callers,
        arrivals: recorded(arrivals),
      }).maxMs! * 1000
    expect(simulated(slower)).toBeGreaterThanOrEqual(simulated(twice) + 7 * 0.5 * 19 - 0.1)
  })
})

describe('requests that leave before their answer', () => {
  const twenty = (more: (index: number) => Partial<Arrival>) =>
    recorded(Array.from({ length: 20 }, (_, index): Arrival => ({ atUs: 0, rows: 1, ...more(index) })))

  it('make room for others, also in a batch that waits behind a run', () => {
    // The first runs, the second waits behind it when all but the last withdraw.
    const result = simulate({
      ...one,
      arrivals: twenty((index) => (index < 19 ? { cancelledUs: 5000 } : {})),
    })
    expect(result).toMatchObject({ answered: 1, dropped: 19, batches: { 1: 2 } })
    expect(result.maxMs).toBeCloseTo(20, 6)
  })

  it('have no answer where they run already, and end nothing where they were answered', () => {
    expect(simulate({ ...one, arrivals: recorded([{ atUs: 0, rows: 1, cancelledUs: 5000 }]) })).toMatchObject(
      { answered: 0, dropped: 1, batches: { 1: 1 } },
    )
    expect(
      simulate({ ...one, arrivals: recorded([{ atUs: 0, rows: 1, cancelledUs: 15_000 }]) }),
    ).toMatchObject({ answered: 1, dropped: 0 })
  })

  it('are dropped when their time is over, wherever they wait', () => {
    expect(simulate({ ...one, arrivals: twenty(() => ({ timeoutMs: 35 })) })).toMatchObject({
      answered: 4,
      dropped: 16,
      batches: { 1: 4 },
    })
  })
})

describe('requests with a deadline', () => {
  it('are refused from the first one on where it is out of reach: the model has served before', () => {
    const arrivals = recorded(Array.from({ length: 100 }, () => ({ atUs: 0, rows: 1, deadlineMs: 30 })))
    expect(simulate({ ...one, arrivals })).toMatchObject({ answered: 2, refused: 98, dropped: 0 })
  })
})

describe('an instance that is idle', () => {
  it('takes what waits behind the run of another', () => {
    // Both run; a batch waits behind the slower one, and the other one has nothing to do after 10 ms.
    const arrivals = recorded([
      { atUs: 0, rows: 8 },
      { atUs: 1, rows: 1 },
      { atUs: 2, rows: 8 },
    ])
    const serviceTimes = [
      { rows: 1, ms: 50 },
      { rows: 8, ms: 10 },
    ]
    const result = simulate({ ...one, serviceTimes, instances: 2, maxBatchSize: 8, arrivals })
    expect(result.batches).toEqual({ 1: 1, 8: 2 })
    expect(result.maxMs).toBeCloseTo(50, 3)
  })
})

describe('requests of more rows than a batch', () => {
  it('are run in parts, and are one request still', () => {
    const arrivals = recorded([
      { atUs: 0, rows: 20 },
      { atUs: 0, rows: 4 },
    ])
    const result = simulate({ ...one, maxBatchSize: 8, splitOversized: true, arrivals })
    expect(result).toMatchObject({ requests: 2, answered: 2, batches: { 8: 3 }, rowsPerSecond: 24 / 0.03 })
    expect(() => simulate({ ...one, maxBatchSize: 8, arrivals })).toThrow(RangeError)
  })

  it('leave as one when the time of a part is over', () => {
    expect(
      simulate({
        ...one,
        maxBatchSize: 8,
        splitOversized: true,
        arrivals: recorded([{ atUs: 0, rows: 40, timeoutMs: 25 }]),
      }),
    ).toMatchObject({ answered: 0, dropped: 1 })
  })
})

describe('an answer that was that of another', () => {
  it('takes what it took, and no run', () => {
    const result = simulate({
      ...one,
      arrivals: recorded([
        { atUs: 0, rows: 1 },
        { atUs: 1000, rows: 1, shared: true, latencyUs: 300 },
      ]),
    })
    expect(result).toMatchObject({ answered: 2, batches: { 1: 1 } })
    expect(result.p50Ms).toBeCloseTo(0.3, 6)
  })
})

describe('recorded runs', () => {
  const runs = Array.from({ length: 100 }, (_, index) => ({
    atMs: index * 20,
    request: index * 30,
    rows: 1,
    ms: index === 50 ? 500 : 10,
    bucketKey: '',
  }))

  it('have a stall once, however many runs there are', () => {
    const arrivals = recorded(Array.from({ length: 3000 }, (_, index) => ({ atUs: index * 660, rows: 1 })))
    const result = simulate({ ...one, instances: 8, serviceTimes: { recorded: runs }, arrivals })
    // 2999 runs of 10 ms, some of which are drawn from what the stall slowed, and the stall.
    expect(result.utilisation * 8 * result.simulatedSeconds * 1000).toBeLessThan(3000 * 10 + 500 + 3000)
  })

  it('of no time are runs', () => {
    const zero = runs.map((run) => ({ ...run, ms: 0 }))
    expect(
      simulate({
        ...one,
        serviceTimes: { recorded: zero },
        arrivals: recorded([
          { atUs: 0, rows: 1 },
          { atUs: 10, rows: 1 },
        ]),
      }),
    ).toMatchObject({ answered: 2 })
  })
})

const run = (more: Partial<ArrivalRun>): ArrivalRun => ({
  takenAtUs: 0, rows: 1, requests: 1, instance: 'm_0', gatherUs: 10, handOverUs: 20, runUs: 1000, wakeUs: 30, scatterUs: 40, ...more,
}) // prettier-ignore

const at = (atUs: number, more: Partial<ArrivalRun>): Arrival => ({
  atUs,
  rows: 1,
  latencyUs: 2000,
  runs: [run(more)],
})

describe('the runs of a recording', () => {
  it('have their starts and lengths, in milliseconds', () => {
    const [run] = runsOf([
      { ...at(5, { takenAtUs: 100, rows: 3 }), latencyUs: 1200 },
      { atUs: 7, rows: 1 },
    ])
    expect(run).toMatchObject({ atMs: 0.13, rows: 3, ms: 1, gatherMs: 0.01 })
    expect(run!.scatterMs).toBeCloseTo(0.045, 6) // until the first answer was given
  })

  it('tell how long the event loop and a worker took to notice, where nothing else was in the way', () => {
    const [alone, behind] = runsOf([at(0, { takenAtUs: 50 }), at(200, { takenAtUs: 300, handOverUs: 900 })])
    expect(alone).toMatchObject({ turnMs: 0.05, handOverMs: 0.02, wakeMs: 0.03 })
    // It came while the other ran, and was handed over before that had ended.
    expect(behind).toMatchObject({ turnMs: null, handOverMs: null })
  })

  it('tell how long a worker took from one to the next, and how late a timer was', () => {
    const config = {
      instances: 1,
      maxBatchSize: 8,
      joinRequests: true,
      preferredBatchSizes: [],
      maxQueueDelayMs: 5,
      latencyTargetMs: 0,
      priorityLevels: 0,
      defaultPriorityLevel: 0,
      defaultPolicy: {
        timeoutAction: 'REJECT',
        defaultTimeoutMs: 0,
        allowTimeoutOverride: false,
        maxQueueSize: 0,
      },
      policies: [],
    } as const
    const [first, second] = runsOf([
      { ...at(0, { takenAtUs: 5700, reason: 'delay' }), config: config as never },
      at(6000, { takenAtUs: 6100, handOverUs: 700, reason: 'full' }),
    ])
    expect(first!.timerMs).toBeCloseTo(0.7, 6)
    expect(first!.turnMs).toBeNull() // it waited for the delay: a shorter one would have been less
    expect(second!.betweenMs).toBeCloseTo((6100 + 10 + 700 - (5700 + 10 + 20 + 1000)) / 1000, 6)
    expect(second!.turnMs).toBeNull()
  })

  it('have the application thread awake as soon as it takes the next batch', () => {
    const [first] = runsOf([at(0, { takenAtUs: 0, wakeUs: 500 }), at(100, { takenAtUs: 1100 })])
    expect(first!.wakeMs).toBeCloseTo(0.07, 6)
  })

  it('have it awake already while it does something for others', () => {
    // Gathering the second ends 10 us before it comes to the outputs of the first, which are ready for long.
    const [first] = runsOf([
      at(0, { takenAtUs: 0, wakeUs: 500 }),
      at(500, { takenAtUs: 1000, gatherUs: 300, handOverUs: 5000 }),
    ])
    expect(first!.wakeMs).toBeCloseTo((1530 - 1300) / 1000, 6)
  })

  it('tell what the application thread does for each request and each answer', () => {
    const three = [
      { ...at(0, { takenAtUs: 13, rows: 3, requests: 3, reason: 'full' }), latencyUs: 1150 },
      { atUs: 5, rows: 1, latencyUs: 1147 },
      { atUs: 10, rows: 1, latencyUs: 1144 },
    ]
    const [run] = runsOf(three)
    expect(run).toMatchObject({ request: 0, requests: 3, closingMs: 0.003, answerMs: 0.002 })
    // One that waited for something else than its last request was not closed on it.
    expect(runsOf([...three, { atUs: 12, rows: 1 }])[0]).toMatchObject({ closingMs: null })
  })

  it('are handed out after the batches that are taken before', () => {
    const [first] = runsOf([
      { ...at(0, { takenAtUs: 0, wakeUs: 100 }), latencyUs: 1200 },
      at(10, { takenAtUs: 1050, gatherUs: 60 }),
    ])
    // It woke at 1050 us, was busy with the next one until 1110, and gave the answer at 1200.
    expect(first!.scatterMs).toBeCloseTo(0.09, 6)
  })

  it('of the application thread itself need no waking', () => {
    const arrivals = [at(0, { inline: true })]
    expect(runsOf(arrivals)[0]).toMatchObject({ handOverMs: null, wakeMs: null })
    expect(inlineIn(arrivals)).toEqual({ maxUs: 300, loopShare: 0.9 })
    expect(inlineIn([at(0, {})])).toBeNull()
  })

  it('are of so many instances', () => {
    expect(instancesIn([at(0, {}), at(1, { instance: 'm_1' }), at(2, {})])).toBe(2)
  })
})

describe('what surrounds recorded runs', () => {
  it('is as it was about the same requests, and by rows', () => {
    const runs = runsOf(
      Array.from({ length: 40 }, (_, index) =>
        at(index * 10_000, {
          takenAtUs: index * 10_000 + (index === 20 ? 9000 : 100),
          rows: 1 + (index % 2),
          gatherUs: index % 2 === 0 ? 10 : 30,
        }),
      ),
    )
    const delays = recordedDelays(runs, 1)
    expect(delays.turnMs(10)).toBeCloseTo(0.1, 6)
    expect(
      [delays.gatherMs(1, 5), delays.gatherMs(2, 6), delays.gatherMs(3, 7)].map((ms) =>
        Math.round(ms * 1000),
      ),
    ).toEqual([10, 30, 45])
    expect(delays.turnMs(20)).toBeCloseTo(9, 6)
    expect(delays.turnMs(20)).toBeCloseTo(0.1, 6) // a stall comes once
  })
})

describe('the figures of a recording', () => {
  it('are of those that were answered', () => {
    const arrivals: Arrival[] = [
      { atUs: 0, rows: 2, latencyUs: 1000 },
      { atUs: 500, rows: 1 },
      { atUs: 1000, rows: 4, latencyUs: 3000, runs: [run({ rows: 6 })] },
    ]
    expect(recordedFigures(arrivals)).toEqual({
      requests: 3, answered: 2, p50Ms: 1, p90Ms: 3, p95Ms: 3, p99Ms: 3, maxMs: 3, throughputPerSecond: 500, rowsPerSecond: 1500, meanBatchRows: 6,
    }) // prettier-ignore
    expect(recordedFigures([{ atUs: 0, rows: 1 }])).toMatchObject({
      answered: 0,
      p99Ms: null,
      throughputPerSecond: 0,
      meanBatchRows: null,
    })
  })
})
