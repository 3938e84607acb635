import { describe, expect, it } from 'vitest'
import type { Arrival, ArrivalRun } from '../../../../src/observe/arrivals/arrival.ts'
import { RecordedDelays } from '../../src/simulation/delays.ts'
import { inlineIn, instancesIn, recordedFigures, runsOf } from '../../src/simulation/recorded-run.ts'

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
    expect(inlineIn(arrivals)).toEqual({ maxUs: 100, loopShare: 0.5 })
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
    const delays = new RecordedDelays(runs, 1)
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
