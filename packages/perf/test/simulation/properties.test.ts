import { describe, expect, it } from 'vitest'
import type { Arrival } from '../../../../src/observe/arrival.ts'
import { mulberry32, type Random } from '../../../../src/base/numbers.ts'
import type { RecordedRun } from '../../src/simulation/recorded-run.ts'
import { simulate, type SimulatedArrivals, type SimulationOptions } from '../../src/simulation/simulate.ts'
import { oneLevel } from '../../src/simulation/simulated-queue.ts'
import { repetitions } from '../../../../test/support/full.ts'

const runs = repetitions(60, 10)
const requests = 400

const whole = (random: Random, least: number, most: number) =>
  least + Math.floor(random() * (most - least + 1))
const oneOf = <T>(random: Random, values: readonly T[]) => values[whole(random, 0, values.length - 1)]!

function drawArrivals(random: Random, maxRows: number): SimulatedArrivals {
  const ratePerSecond = whole(random, 5, 2000)
  switch (whole(random, 0, 4)) {
    case 0:
      return { kind: 'poisson', ratePerSecond }
    case 1:
      return { kind: 'constant', ratePerSecond }
    case 2:
      return { kind: 'on-off', ratePerSecond, onMs: whole(random, 1, 100), offMs: whole(random, 0, 100) }
    case 3:
      return { kind: 'closed', callers: whole(random, 1, 40), thinkMs: whole(random, 0, 5) }
    default:
      return { kind: 'recorded', arrivals: drawRecording(random, maxRows), speed: oneOf(random, [0.5, 1, 7]) }
  }
}

function drawRecording(random: Random, maxRows: number): Arrival[] {
  let atUs = 0
  return Array.from({ length: requests }, (): Arrival => {
    atUs += oneOf(random, [0, 0, 100, 10_000, 40_000])
    return {
      atUs, rows: whole(random, 1, maxRows), priority: whole(random, 0, 4),
      ...(random() < 0.3 ? { timeoutMs: whole(random, 1, 200) } : {}),
      ...(random() < 0.2 ? { deadlineMs: whole(random, 1, 300) } : {}),
      ...(random() < 0.5 ? { dims: { ids: [1, whole(random, 2, 4)] } } : {}),
    } // prettier-ignore
  })
}

function drawRecordedRuns(random: Random, maxRows: number): RecordedRun[] {
  return Array.from({ length: whole(random, 1, 80) }, (_, index) => ({
    atMs: index * 50, request: index * 5, rows: whole(random, 1, maxRows), ms: 1 + 20 * random(), bucketKey: oneOf(random, ['', 'other']),
    turnMs: random() < 0.5 ? null : random(), handOverMs: random() < 0.5 ? null : random(), wakeMs: random(), gatherMs: random() / 10, scatterMs: random() / 10, closingMs: random() < 0.5 ? null : random(), answerMs: random() < 0.5 ? null : random() / 10,
  })) // prettier-ignore
}

function draw(seed: number): SimulationOptions {
  const random = mulberry32(seed)
  const maxBatchSize = whole(random, 1, 12)
  const maxRows = whole(random, 1, maxBatchSize)
  const preferred = [...new Set([whole(random, 1, maxBatchSize), whole(random, 1, maxBatchSize)])].sort(
    (a, b) => a - b,
  )
  return {
    arrivals: drawArrivals(random, maxRows),
    requests,
    rows: [{ rows: 1, share: 3 }, { rows: maxRows, share: 1 }],
    serviceTimes: random() < 0.5 ? { recorded: drawRecordedRuns(random, maxBatchSize) } : [{ rows: 1, ms: 1 + 10 * random() }, { rows: 12, ms: 12 + 20 * random() }],
    jitter: oneOf(random, [0, 0.2]),
    instances: whole(random, 1, 4),
    maxBatchSize,
    preferredBatchSizes: random() < 0.5 ? [] : preferred,
    maxQueueDelayMs: oneOf(random, [0, 0, 5, 50]),
    levels: random() < 0.5 ? oneLevel : { ...oneLevel, priorityLevels: 3, defaultPriorityLevel: 2, defaultPolicy: { ...oneLevel.defaultPolicy, maxQueueSize: oneOf(random, [0, 20]) } },
    ...(random() < 0.5 ? { slowdown: [1, 1.2, 1.5] } : {}),
    overheads: random() < 0.5 ? {} : { requestMs: 0.01, turnMs: 0.1, gatherMs: 0.05, gatherRowMs: 0.01, handOverMs: 0.05, wakeMs: 0.05, scatterMs: 0.02, inline: random() < 0.3 ? { maxUs: 3000, loopShare: 0.5 } : null },
    ...(random() < 0.3 ? { latencyTargetMs: whole(random, 20, 500) } : {}),
    seed,
  } // prettier-ignore
}

describe.each(Array.from({ length: runs }, (_, seed) => seed + 1))(
  'whatever is simulated (seed %d)',
  (seed) => {
    const options = draw(seed)
    const result = simulate(options)

    it('every request is answered, refused or dropped, once, and no batch is too large', () => {
      expect(result.requests).toBe(requests)
      expect(result.answered + result.refused + result.dropped).toBe(requests)
      const sizes = Object.entries(result.batches)
      for (const [rows] of sizes) expect(Number(rows)).toBeLessThanOrEqual(options.maxBatchSize)
      const rows = sizes.reduce((sum, [size, count]) => sum + Number(size) * count, 0)
      expect(result.rowsPerSecond * result.simulatedSeconds).toBeCloseTo(rows, 3)
    })

    it('its figures are in order', () => {
      const { p50Ms, p90Ms, p95Ms, p99Ms, maxMs, utilisation, answered } = result
      if (answered === 0) return expect(maxMs).toBeNull()
      expect([p50Ms, p90Ms, p95Ms, p99Ms, maxMs]).toEqual(
        [p50Ms, p90Ms, p95Ms, p99Ms, maxMs].toSorted((a, b) => a! - b!),
      )
      expect(p50Ms).toBeGreaterThan(0)
      expect(utilisation).toBeGreaterThan(0)
      expect(utilisation).toBeLessThanOrEqual(1 + 1e-9)
    })

    it('it comes out the same again', () => {
      expect({ ...simulate(options), wallSeconds: 0 }).toEqual({ ...result, wallSeconds: 0 })
    })
  },
)

describe('order', () => {
  it('is kept: of equal requests none is answered before one that came earlier, by one instance', () => {
    // One instance and one row a batch: the n-th answer is that of the n-th request, so latencies tell it all.
    const arrivals = Array.from({ length: 50 }, (_, index): Arrival => ({ atUs: index * 1000, rows: 1 }))
    const options = {
      arrivals: { kind: 'recorded', arrivals },
      serviceTimes: [{ rows: 1, ms: 3 }],
      instances: 1,
      maxBatchSize: 1,
    } as const
    const { meanMs, maxMs, p50Ms } = simulate(options)
    const expected = arrivals.map((_, index) => 3 * (index + 1) - index)
    expect(maxMs).toBeCloseTo(Math.max(...expected), 6)
    expect(p50Ms).toBeCloseTo(expected[24]!, 6)
    expect(meanMs).toBeCloseTo(expected.reduce((sum, ms) => sum + ms, 0) / 50, 6)
  })

  it('of levels goes before that of arrival', () => {
    const arrivals = Array.from({ length: 20 }, (_, index): Arrival => ({
      atUs: 0,
      rows: 1,
      priority: index < 10 ? 2 : 1,
      timeoutMs: index < 10 ? 85 : 1000,
    }))
    const levels = { ...oneLevel, priorityLevels: 2, defaultPriorityLevel: 2 }
    const options = {
      arrivals: { kind: 'recorded', arrivals },
      serviceTimes: [{ rows: 1, ms: 10 }],
      instances: 1,
      maxBatchSize: 1,
    } as const
    expect(simulate({ ...options, levels })).toMatchObject({ answered: 10, dropped: 10 })
    // The tenth waits behind the ninth when its time runs out, and is taken back from there.
    expect(simulate(options)).toMatchObject({ answered: 19, dropped: 1 })
  })
})
