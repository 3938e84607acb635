import { describe, expect, it } from 'vitest'
import { RequestLog } from '../../src/perf/load/recorder.ts'
import { measureDefaults } from '../../src/perf/perf-settings.ts'
import { levelText, settingsText, summaryText } from '../../src/perf/report/console-report.ts'
import { composingCsvReport, csvReport } from '../../src/perf/report/csv-report.ts'
import { profileText } from '../../src/perf/report/profile-export.ts'
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
