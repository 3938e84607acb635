import { describe, expect, it } from 'vitest'
import type { Arrival } from '../../../../src/observe/arrivals/arrival.ts'
import { checkPrediction, recordedFigures } from '../../src/simulation/recorded-run.ts'
import { simulate } from '../../src/simulation/simulate.ts'

/** Requests of 10 ms each, far apart. */
const arrivals = Array.from({ length: 50 }, (_, index): Arrival => ({
  atUs: index * 50_000,
  rows: 1,
  latencyUs: 10_000,
}))

function checked(ms: number) {
  const predicted = simulate({
    arrivals: { kind: 'recorded', arrivals },
    serviceTimes: [{ rows: 1, ms }],
    instances: 1,
    maxBatchSize: 1,
  })
  return checkPrediction(recordedFigures(arrivals), predicted)!
}

describe('the prediction of a recording', () => {
  it('is trusted within 15 % of the p99 and 5 % of the throughput', () => {
    expect(checked(11)).toEqual({
      p99Off: expect.closeTo(0.1, 6) as number,
      throughputOff: expect.closeTo(0, 2) as number,
      isTrusted: true,
    })
    expect(checked(8)).toMatchObject({ p99Off: expect.closeTo(-0.2, 6) as number, isTrusted: false })
  })

  it('is not where as many as that are not answered in time', () => {
    expect(checked(60)).toMatchObject({ isTrusted: false })
    expect(checked(60).throughputOff).toBeLessThan(-0.05)
  })

  it('is trusted where answers took no time, and are said to take none', () => {
    const cached = arrivals.map((arrival) => ({ ...arrival, latencyUs: 0, shared: true }))
    const predicted = simulate({
      arrivals: { kind: 'recorded', arrivals: cached },
      serviceTimes: [{ rows: 1, ms: 1 }],
      instances: 1,
      maxBatchSize: 1,
    })
    expect(checkPrediction(recordedFigures(cached), predicted)).toMatchObject({ p99Off: 0, isTrusted: true })
  })

  it('is none where nothing was answered', () => {
    expect(
      checkPrediction(
        recordedFigures([{ atUs: 0, rows: 1 }]),
        simulate({
          arrivals: { kind: 'recorded', arrivals },
          serviceTimes: [{ rows: 1, ms: 1 }],
          instances: 1,
          maxBatchSize: 1,
        }),
      ),
    ).toBeNull()
  })
})
