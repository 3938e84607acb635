import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { leftOut, leftOutColumns, leftOutText } from '../../src/cli/perf-left-out.ts'
import { perf } from '../../src/cli/perf.ts'
import { csvReport } from '../../src/perf/report/csv-report.ts'
import { levelOf } from '../perf/level.ts'
import { root, zerohop } from '../../../../test/cli/run.ts'

/** The options of perf_analyzer, with their defaults; `undefined` where it has none. */
const has: readonly [option: string, byDefault: unknown][] = [
  ['-m', undefined],
  ['-x', undefined],
  ['-b', 1],
  ['-v', false],
  ['--version', undefined],
  ['--model-repository', undefined],
  ['--measurement-mode', 'time_windows'],
  ['-p', 5000],
  ['--measurement-interval', 5000],
  ['--measurement-request-count', 50],
  ['-s', 10],
  ['--stability-percentage', 10],
  ['--percentile', -1],
  ['--warmup-request-count', 0],
  ['--request-count', 0],
  ['-r', 10],
  ['--max-trials', 10],
  ['--concurrency-range', undefined],
  ['--periodic-concurrency-range', undefined],
  ['--request-period', 10],
  ['--request-parameter', []],
  ['--request-rate-range', undefined],
  ['--request-distribution', 'constant'],
  ['-l', 0],
  ['--latency-threshold', 0],
  ['--binary-search', false],
  ['--request-intervals', undefined],
  ['--num-of-sequences', 4],
  ['--sequence-length', 20],
  ['--sequence-length-variation', 20],
  ['--sequence-id-range', { start: 1, end: 2 ** 32 }],
  ['--serial-sequences', false],
  ['--input-data', []],
  ['--shape', []],
  ['--string-data', undefined],
  ['--string-length', 128],
  ['-f', undefined],
  ['--profile-export-file', undefined],
  ['--verbose-csv', false],
]

/** Its other options, each of which is told of, with a reason. */
const hasNot = [
  '--service-kind',
  '--endpoint',
  '--bls-composing-models',
  '--model-signature-name',
  '--session-concurrency',
  '--fixed-schedule',
  '--max-threads',
  '--enable-mpi',
  '--shared-memory',
  '--output-shared-memory-size',
  '--input-tensor-format',
  '--output-tensor-format',
  '-i',
  '-a',
  '--async',
  '--sync',
  '--streaming',
  '-H',
  '--grpc-compression-algorithm',
  '--grpc-method',
  '--proto',
  '-u',
  '--ssl-grpc-use-ssl',
  '--ssl-grpc-root-certifications-file',
  '--ssl-grpc-private-key-file',
  '--ssl-grpc-certificate-chain-file',
  '--ssl-https-verify-peer',
  '--ssl-https-verify-host',
  '--ssl-https-ca-certificates-file',
  '--ssl-https-client-certificate-file',
  '--ssl-https-client-certificate-type',
  '--ssl-https-private-key-file',
  '--ssl-https-private-key-type',
  '--triton-server-directory',
  '--collect-metrics',
  '--metrics-url',
  '--metrics-interval',
  '--trace-level',
  '--trace-rate',
  '--trace-count',
  '--log-frequency',
  '--data-directory',
  '-c',
  '-d',
  '-t',
  '-z',
]

const options = new Map(
  perf.options.flatMap((option) => [option.short, option.long].map((name) => [name, option] as const)),
)

/** The columns of its CSV. */
const columns = [
  'Concurrency',
  'Request Rate',
  'Inferences/Second',
  'Response Throughput',
  'Client Send',
  'Network+Server Send/Recv',
  'Server Queue',
  'Server Compute Input',
  'Server Compute Infer',
  'Server Compute Output',
  'Server Cache Hit',
  'Server Cache Miss',
  'Client Recv',
  'p50 latency',
  'p90 latency',
  'p95 latency',
  'p99 latency',
  'p97 latency',
  'Avg latency',
  'request/response',
  'response wait',
  'Avg GPU Utilization',
  'Avg GPU Power Usage',
  'Max GPU Memory Usage',
  'Total GPU Memory',
]

describe('the columns of the CSV of zerohop perf', () => {
  const usual = levelOf({ server: { ...levelOf({}).server, cacheHitCount: 1 } })
  const withPercentile = { ...usual, percentile: { percentile: 97, us: 1 } }
  const written = new Set(
    (
      [
        ['concurrency', usual],
        ['request-rate', withPercentile],
      ] as const
    ).flatMap(([mode, level]) =>
      csvReport({ mode, levels: [level] }, true)
        .split('\n', 1)[0]!
        .split(','),
    ),
  )
  const without = leftOutColumns.flatMap(([names]) => names.split(', '))

  it.each(columns)('have %s of perf_analyzer, or a reason why not', (name) => {
    expect([written.has(name), without.includes(name)].filter(Boolean)).toHaveLength(1)
  })

  it('have no others', () => {
    expect([...written, ...without].toSorted()).toEqual(columns.toSorted())
  })
})

describe('the options of zerohop perf', () => {
  it.each(has)('have %s of perf_analyzer, with its default', (name, byDefault) => {
    expect(options.get(name)).toBeDefined()
    expect(options.get(name)!.defaultValue).toEqual(byDefault)
  })

  it('leave out the others, each with a reason, and no more', () => {
    const named = leftOut.flatMap(([names]) => names.split(' '))
    expect(named.toSorted()).toEqual(hasNot.toSorted())
    expect(hasNot.filter((name) => options.has(name))).toEqual([])
    expect(leftOut.filter(([, reason]) => reason.length < 20)).toEqual([])
  })

  it('are all in --help-all, and so is what is left out', async () => {
    const { code, stdout: help } = await zerohop('perf', '--help-all')
    expect(code).toBe(0)
    for (const [name] of has) expect(help).toContain(name)
    expect(help).toContain(leftOutText())
  })

  it('are few in --help, which fits a screen', async () => {
    const { code, stdout: help } = await zerohop('perf', '--help')
    expect(code).toBe(0)
    for (const name of ['--concurrency-range', '--json', '--help-all']) expect(help).toContain(name)
    expect(help).not.toContain('--string-length')
    expect(help.split('\n').length).toBeLessThanOrEqual(50)
  })

  it('and the reasons are in docs/guide/perf.md', () => {
    const page = readFileSync(`${root}docs/guide/perf.md`, 'utf8')
    for (const [names, reason] of leftOut) {
      for (const name of names.split(' ')) expect(page).toContain(`\`${name}\``)
      expect(page).toContain(reason)
    }
    for (const [names, reason] of leftOutColumns) {
      for (const name of names.split(', ')) expect(page).toContain(`\`${name}\``)
      expect(page).toContain(reason)
    }
    for (const [name] of has) expect(page).toContain(name)
  })
})
