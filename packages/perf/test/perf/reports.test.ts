import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Feeds } from '../../../../src/index.ts'
import { DurationHistogram, RequestLog } from '../../src/perf/load/recorder.ts'
import type { PerfModel } from '../../src/perf/open-target.ts'
import { type LevelRange, searchLevels } from '../../src/perf/perf-run.ts'
import { measureDefaults } from '../../src/perf/perf-settings.ts'
import { levelText, settingsText, summaryText } from '../../src/perf/report/console-report.ts'
import { composingCsvReport, csvReport } from '../../src/perf/report/csv-report.ts'
import { profileText } from '../../src/perf/report/profile-export.ts'
import type { LevelResult } from '../../src/perf/result-schema.ts'
import { calibrateService } from '../../src/perf/service-calibration.ts'
import { levelOf } from './level.ts'

describe('the table of levels', () => {
  const usual =
    'Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,'
  const percentiles = 'Client Recv,p50 latency,p90 latency,p95 latency,p99 latency'
  const withCache = levelOf({
    server: {
      ...levelOf({}).server,
      cacheHitCount: 3,
      cacheMissCount: 4,
      cacheHitUs: 11.2,
      cacheMissUs: 21.7,
    },
  })
  const withP97 = levelOf({ percentile: { percentile: 97, us: 777.7 } })
  const withP95 = levelOf({ percentile: { percentile: 95, us: 950 } })
  const withOwn = 'Client Recv,p50 latency,p90 latency,p95 latency,p97 latency,p99 latency'
  const verbose = ',request/response,response wait'

  it.each([
    ['concurrency', [levelOf({})], false, `Concurrency,${usual}${percentiles}`],
    ['request-rate', [levelOf({})], false, `Request Rate,${usual}${percentiles}`],
    ['request-intervals', [levelOf({})], false, `Request Rate,${usual}${percentiles}`],
    [
      'concurrency',
      [levelOf({}), withCache],
      false,
      `Concurrency,${usual}Server Cache Hit,Server Cache Miss,${percentiles}`,
    ],
    ['concurrency', [withP97], false, `Concurrency,${usual}${withOwn}`],
    ['concurrency', [withP95], false, `Concurrency,${usual}${percentiles}`],
    ['concurrency', [levelOf({})], true, `Concurrency,${usual}${percentiles},Avg latency${verbose}`],
    ['concurrency', [withP97], true, `Concurrency,${usual}${withOwn}${verbose}`],
  ] as const)(
    'under %s has the columns of perf_analyzer, in their order',
    (mode, levels, isVerbose, header) => {
      const [first, ...rows] = csvReport({ mode, levels }, isVerbose).trimEnd().split('\n')
      expect(first).toBe(header)
      for (const row of rows) expect(row.split(',')).toHaveLength(header.split(',').length)
    },
  )

  it('has the fastest level last, times in whole microseconds, and parts that add up to the average', () => {
    const levels = [
      levelOf({ level: 1, inferencesPerSecond: 100.456 }),
      levelOf({ level: 8, inferencesPerSecond: 300 }),
    ]
    const [, second, first] = csvReport({ mode: 'concurrency', levels }, true).split('\n')
    expect(first).toBe('8,300,0,660,100,10,200,30,0,900,1500,1600,1700,1000,0,1000')
    expect(second!.startsWith('1,100.46,')).toBe(true)
    const parts = first!.split(',').slice(2, 9).map(Number)
    expect(parts.reduce((sum, us) => sum + us, 0)).toBe(1000)
  })

  it('of one model of an ensemble has what the engine says of it', () => {
    const { server } = levelOf({})
    const levels = [
      levelOf({
        composingModels: [
          {
            model: 'one',
            version: 1,
            server: { ...server, inferenceCount: 1000, queueUs: 7 },
            batchSizes: [],
          },
        ],
      }),
    ]
    expect(composingCsvReport({ mode: 'concurrency', levels }, 0)).toBe(
      `Concurrency,${usual}Client Recv\n1,200,0,103,7,10,200,30,0\n`,
    )
    expect(levelText('concurrency', levels[0]!)).toContain(`
  Composing models: 
  one, version: 1
    Inference count: 1000
    Execution count: 250
`)
  })

  it('has what looks into the cache took, and not how many there were', () => {
    const [names, values] = csvReport({ mode: 'concurrency', levels: [withCache] }, false)
      .split('\n')
      .map((line) => line.split(','))
    expect(['Server Cache Hit', 'Server Cache Miss'].map((name) => values![names!.indexOf(name)])).toEqual([
      '11.2',
      '21.7',
    ])
  })

  it('has how late requests were sent as what the client took', () => {
    const lag = { ...levelOf({}).latency, averageUs: 50 }
    const [, row] = csvReport({ mode: 'request-rate', levels: [levelOf({ sendLag: lag })] }, true).split('\n')
    expect(row!.split(',').slice(2, 4)).toEqual(['50', '610'])
    expect(row!.split(',').slice(-2)).toEqual(['50', '950'])
  })
})

describe('what is printed', () => {
  it('of a level is laid out as by perf_analyzer', () => {
    expect(
      levelText('concurrency', levelOf({ latency: { ...levelOf({}).latency, averageUs: 1000 } })),
    ).toContain('    Throughput: 100 infer/sec\n    Avg client overhead: 90%\n')
    expect(levelText('concurrency', levelOf({ paddingShare: 0.125 }))).toContain(
      '    Padding: 12.5 % of what was run\n',
    )
    expect(levelText('concurrency', levelOf({ level: 4, failures: { ERR_QUEUE_FULL: 2, ERR_TIMEOUT: 1 } })))
      .toBe(`Request concurrency: 4
  Client: 
    Request count: 500
    Failed Request Count: 3 (ERR_QUEUE_FULL 2, ERR_TIMEOUT 1)
    Throughput: 100 infer/sec
    Avg latency: 1000 usec (standard deviation 55 usec)
    p50 latency: 900 usec
    p90 latency: 1500 usec
    p95 latency: 1600 usec
    p99 latency: 1700 usec
  Process: 
    CPU: 1.5 cores
    Event loop delay: p50 20 usec, p99 40 usec, max 50 usec
  Server: 
    Inference count: 500
    Execution count: 250
    Successful request count: 500
    Avg request latency: 350 usec (overhead 10 usec + queue 100 usec + compute input 10 usec + compute infer 200 usec + compute output 30 usec)

`)
  })

  it('of a level that is sent by a schedule has the rate and the lag of sending, and of sequences how many there were', () => {
    const text = levelText(
      'request-rate',
      levelOf({
        level: 0.30000000000000004,
        sequences: 20,
        sendLag: { ...levelOf({}).latency, averageUs: 12, p99Us: 99 },
        delayedCount: 7,
        percentile: { percentile: 97, us: 777.7 },
      }),
    )
    expect(text).toContain('Request Rate: 0.3\n')
    expect(text).toContain('    Avg send request rate: 101 infer/sec\n    Sequence count: 20 (4 seq/sec)\n')
    expect(text).toContain('    p97 latency: 778 usec\n')
    expect(text).toContain('    Avg send lag: 12 usec (p99 99 usec), 7 delayed by more than 1 msec\n')
    expect(text).toContain(
      '    [WARNING] 1.39 % of the requests were sent more than 1 msec late: the thread that sends them was busy or paused, and their latency counts from when they were meant to be sent\n',
    )
    expect(
      levelText('request-rate', levelOf({ sendLag: levelOf({}).latency, delayedCount: 5 })),
    ).not.toContain('WARNING')
  })

  it('of a level that left requests unanswered says how many', () => {
    expect(levelText('request-rate', levelOf({ unansweredCount: 3 }))).toContain(
      '    Unanswered request count: 3, at the end of the measurement\n    Throughput',
    )
    expect(levelText('request-rate', levelOf({ unansweredCount: 0 }))).not.toContain('Unanswered')
  })

  it('at the end is a line for each level, by the latency that had to be stable', () => {
    expect(summaryText('concurrency', [levelOf({ level: 1 }), levelOf({ level: 2, stable: false })]))
      .toBe(`Inferences/Second vs. Client Average Batch Latency
Concurrency: 1, throughput: 100 infer/sec, latency 1000 usec
Concurrency: 2, throughput: 100 infer/sec, latency 1000 usec (not stable)
`)
    expect(summaryText('request-rate', [levelOf({ level: 5, percentile: { percentile: 99, us: 1234 } })]))
      .toBe(`Inferences/Second vs. Client p99 Batch Latency
Request Rate: 5, throughput: 100 infer/sec, latency 1234 usec
`)
  })

  it('at the beginning are the settings', () => {
    const settings = {
      ...measureDefaults,
      batchSize: 2,
      latencyThresholdMs: 20,
      mode: 'request-rate',
      distribution: 'poisson',
    } as const
    expect(settingsText(settings)).toBe(`*** Measurement Settings ***
  Batch size: 2
  Service Kind: zerohop, in this process
  Using "time_windows" mode for stabilization
  Stabilizing using average latency and throughput
  Measurement window: 5000 msec
  Latency limit: 20 msec
  Using poisson distribution on request generation
  Using asynchronous calls, sent when they are due

`)
    expect(settingsText({ ...settings, measurementMode: 'count_windows', percentile: 95 })).toContain(
      '  Stabilizing using p95 latency and throughput\n  Minimum number of samples in each window: 50\n',
    )
    expect(settingsText({ ...settings, mode: 'periodic-concurrency' })).not.toContain('window')
    expect(settingsText({ ...settings, requestCount: 7 })).toContain('  Sending a total of 7 requests\n')
  })
})

describe('the exported requests', () => {
  it('are as perf_analyzer has them, with nanoseconds since the epoch', () => {
    const requests = new RequestLog()
    requests.push(1, 2, 3.5, { feeds: {}, rows: 4, options: { sequenceId: 9 } }, null)
    requests.push(5, 5, 6, { feeds: {}, rows: 1 }, 'ERR_TIMEOUT')
    const text = [
      ...profileText(
        [{ mode: 'request-rate', level: 10, requests, boundariesMs: [0, 7] }],
        'm',
        '1.2.3',
        1_700_000_000_000,
      ),
    ].join('')
    expect(text).toContain('"timestamp":1700000000001000000,')
    expect(JSON.parse(text)).toEqual({
      experiments: [
        {
          experiment: { mode: 'request_rate', value: 10 },
          requests: [
            {
              timestamp: 1700000000001000000,
              sent_timestamp: 1700000000002000000,
              sequence_id: 9,
              rows: 4,
              response_timestamps: [1700000000003500000],
            },
            {
              timestamp: 1700000000005000000,
              sent_timestamp: 1700000000005000000,
              rows: 1,
              response_timestamps: [],
              failure: 'ERR_TIMEOUT',
              failure_timestamp: 1700000000006000000,
            },
          ],
          window_boundaries: [1700000000000000000, 1700000000007000000],
        },
      ],
      version: '1.2.3',
      service_kind: 'zerohop',
      endpoint: '',
      model: 'm',
    })
  })
})

function histogramOf(durations: readonly number[]): DurationHistogram {
  const histogram = new DurationHistogram()
  for (const us of durations) histogram.record(us)
  return histogram
}

const duration = fc.double({ min: 0.25, max: 1e9, noNaN: true })

describe('a histogram of durations', () => {
  it('has percentiles at index round(p * (n - 1)), as perf_analyzer, within a fifth of a per cent', () => {
    fc.assert(
      fc.property(
        fc.array(duration, { minLength: 1, maxLength: 200 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (durations, share) => {
          const exact = durations.toSorted((a, b) => a - b)[Math.round(share * (durations.length - 1))]!
          expect(Math.abs(histogramOf(durations).quantileUs(share) - exact) / exact).toBeLessThan(0.002)
        },
      ),
    )
  })

  it('has the exact count, average, deviation and maximum', () => {
    const { count, averageUs, standardDeviationUs, maxUs } = histogramOf([1, 2, 3, 4, 10])
    expect({ count, averageUs, maxUs }).toEqual({ count: 5, averageUs: 4, maxUs: 10 })
    expect(standardDeviationUs).toBeCloseTo(Math.sqrt(50 / 4), 9)
  })

  it('joined with another is as if one had seen all', () => {
    const joined = histogramOf([5, 70])
    joined.add(histogramOf([900, 1]))
    const all = histogramOf([5, 70, 900, 1])
    expect([0, 0.3, 0.5, 0.9, 1].map((share) => joined.quantileUs(share))).toEqual(
      [0, 0.3, 0.5, 0.9, 1].map((share) => all.quantileUs(share)),
    )
    expect([joined.count, joined.averageUs, joined.maxUs]).toEqual([all.count, all.averageUs, all.maxUs])
  })

  it('counts each duration in one bar, at most its bound and above the bound before', () => {
    const durations = [0, 0.1, 1, 1.5, 2, 100, 101, 5000, 1e9, 1e12]
    const bars = histogramOf(durations).bars(8)
    expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(durations.length)
    expect(bars.map(({ upToUs }) => upToUs)).toEqual(
      bars.map(({ upToUs }) => upToUs).toSorted((a, b) => a - b),
    )
    const ofThousands = bars.find(({ upToUs }) => upToUs >= 5000)!
    expect(ofThousands.upToUs).toBeLessThan(5000 * 2 ** (1 / 4))
  })

  it('counts how many were within a bound', () => {
    const histogram = histogramOf([100, 200, 300, 400])
    expect([50, 150, 250, 1000].map((us) => histogram.countUpTo(us))).toEqual([0, 1, 2, 4])
  })

  it('of nothing is all zeros', () => {
    const empty = new DurationHistogram()
    expect([
      empty.count,
      empty.averageUs,
      empty.standardDeviationUs,
      empty.maxUs,
      empty.quantileUs(0.99),
      empty.bars(8).length,
    ]).toEqual([0, 0, 0, 0, 0, 0])
  })
})

/** Levels in the order in which they are measured, of a model that keeps its threshold up to `meetsUpTo`, and is stable up to `stableUpTo`. */
async function searched(
  range: LevelRange,
  binarySearch: boolean,
  meetsUpTo = Infinity,
  stableUpTo = Infinity,
): Promise<number[]> {
  const measure = (level: number) =>
    Promise.resolve({
      result: { level, stable: level <= stableUpTo } as LevelResult,
      meetsThreshold: level <= meetsUpTo,
    })
  return (await searchLevels({ range, binarySearch }, measure)).map(({ level }) => level)
}

describe('levels one after the other', () => {
  it('go from start to end by the step', async () => {
    expect(await searched({ start: 1, end: 8, step: 3 }, false)).toEqual([1, 4, 7])
    expect(await searched({ start: 4, end: 4, step: 1 }, false)).toEqual([4])
  })

  it('reach an end that is a sum of fractions', async () => {
    expect(await searched({ start: 0.1, end: 0.5, step: 0.1 }, false)).toHaveLength(5)
    for (let index = 0; index < 1000; index++) {
      // All in tenths, where there is no rounding.
      const [start, step, count] = [1 + ((index * 7) % 97), 1 + (index % 9), index % 50]
      expect(
        await searched({ start: start / 10, end: (start + count * step) / 10, step: step / 10 }, false),
      ).toHaveLength(count + 1)
    }
  })

  it('are one where start and end are so large that a step changes nothing', async () => {
    expect(await searched({ start: 1e17, end: 1e17, step: 1 }, false)).toEqual([1e17])
  })

  it('end with the first that goes over the threshold, or is not stable', async () => {
    expect(await searched({ start: 1, end: 100, step: 1 }, false, 3)).toEqual([1, 2, 3, 4])
    expect(await searched({ start: 1, end: 100, step: 1 }, false, Infinity, 1)).toEqual([1, 2])
  })

  it('have no other end where that is 0', async () => {
    expect(await searched({ start: 10, end: 0, step: 10 }, false, 200)).toHaveLength(21)
  })

  it('end when the user has had enough', async () => {
    const controller = new AbortController()
    const levels = await searchLevels(
      { range: { start: 1, end: 0, step: 1 }, binarySearch: false },
      (level) => {
        if (level === 3) controller.abort()
        return Promise.resolve({ result: { level, stable: true } as LevelResult, meetsThreshold: true })
      },
      controller.signal,
    )
    expect(levels.map(({ level }) => level)).toEqual([1, 2, 3])
  })
})

describe('levels by halves', () => {
  it('begin with start, which has to keep the threshold, and end, which has not to', async () => {
    expect(await searched({ start: 1, end: 9, step: 1 }, true, 0)).toEqual([1])
    expect(await searched({ start: 1, end: 9, step: 1 }, true, 100)).toEqual([1, 9])
  })

  it('close in on the last level that keeps it, to the width of a step', async () => {
    expect(await searched({ start: 1, end: 100, step: 1 }, true, 37)).toEqual([
      1, 100, 50, 25, 37, 43, 40, 38,
    ])
    expect(await searched({ start: 0, end: 1, step: 0.125 }, true, 0.4)).toEqual([0, 1, 0.5, 0.25, 0.375])
  })

  it('take one that is not stable for one that does not keep it', async () => {
    expect(await searched({ start: 1, end: 5, step: 1 }, true, Infinity, 2)).toEqual([1, 5, 3, 2])
  })

  it('are one where start and end are', async () => {
    expect(await searched({ start: 4, end: 4, step: 1 }, true)).toEqual([4])
  })
})

/** A model whose runs take what they are said to, by its own reports: nothing here depends on how fast the machine is. */
function reporting(runMs: (rows: number, running: number) => number): PerfModel {
  const counts = new Map<number, number>()
  let running = 0
  const infer = async (feeds: Feeds) => {
    const rows = feeds['rows'] as unknown as number
    const atOnce = ++running
    counts.set(rows, (counts.get(rows) ?? 0) + 1)
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    const computeMs = runMs(rows, Math.max(atOnce, running))
    running--
    return { outputs: {}, report: { batchSize: rows, computeMs, queuedMs: 0.25 } }
  }
  const duration = (count: number, ms: number) => ({ count, ns: count * ms * 1e6 })
  const stats = () => ({
    batchStats: [...counts].map(([batchSize, count]) => ({
      batchSize,
      computeInput: duration(count, 0.1 + 0.02 * batchSize),
      computeOutput: duration(count, 0.05),
    })),
  })
  return { name: 'reporting', version: 1, metadata: {}, infer, stats } as unknown as PerfModel
}

const settings = { maxBatchSize: 8, seconds: 0.2, feedsOf: (rows: number) => ({ rows }) as unknown as Feeds }

describe('a calibration', () => {
  it('has the run times of each size, with single runs', async () => {
    const { serviceTimes, slowdown } = await calibrateService(
      reporting((rows) => 5 + rows),
      { ...settings, instances: 1 },
    )
    expect(serviceTimes.map(({ rows, ms }) => [rows, ms])).toEqual([
      [1, 6],
      [2, 7],
      [4, 9],
      [8, 13],
    ])
    expect(serviceTimes.every(({ samplesMs }) => samplesMs!.length >= 5)).toBe(true)
    expect(slowdown).toEqual([1])
  })

  it('has what gathering and handing out cost, for a batch and for each row', async () => {
    const { overheads } = await calibrateService(
      reporting(() => 1),
      { ...settings, instances: 1 },
    )
    expect(overheads.gatherMs).toBeCloseTo(0.1, 6)
    expect(overheads.gatherRowMs).toBeCloseTo(0.02, 6)
    expect(overheads.scatterMs).toBeCloseTo(0.05, 6)
    expect(overheads.scatterRowMs).toBeCloseTo(0, 6)
    expect(overheads.handOverMs).toBe(0.25)
  })

  it('tells by how much instances slow each other', async () => {
    const { serviceTimes, slowdown } = await calibrateService(
      reporting((rows, running) => (running > 1 ? 1.5 : 1) * rows),
      { ...settings, instances: 3 },
    )
    expect(serviceTimes[0]).toMatchObject({ rows: 1, ms: 1 })
    expect(slowdown).toEqual([1, 1.25, 1.5])
  })

  it('names the shape that it is of', async () => {
    const { serviceTimes } = await calibrateService(
      reporting(() => 1),
      { ...settings, instances: 1, bucketKey: 'long' },
    )
    expect(serviceTimes.every(({ bucketKey }) => bucketKey === 'long')).toBe(true)
  })
})
